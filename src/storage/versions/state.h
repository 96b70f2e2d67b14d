/* src/storage/versions/state.h: the state of one rank's versions; private to this directory. */
#ifndef ONESPACE_STORAGE_VERSIONS_STATE_H
#define ONESPACE_STORAGE_VERSIONS_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "storage/versions/slots.h"

/* ---- Sets of pages ---- */

/* One bit for each page of a part; page 0 begins at the part's first byte. */
struct version_pages {
    uint64_t *word; /* owned: version_pages_free */
    size_t length;  /* of the part, bytes */
};

/* An empty or full set. 0 or -ENOMEM. */
int version_pages_new(struct version_pages *pages, size_t length, int is_full);
void version_pages_free(struct version_pages *pages);
void version_pages_fill(struct version_pages *pages);
void version_pages_clear(struct version_pages *pages);
/* Adds every page that a range touches. */
void version_pages_add(struct version_pages *pages, const struct storage_ranges *ranges);
void version_pages_copy(struct version_pages *pages, const struct version_pages *from);
/* Finds the next run of pages in the set that begins at byte `from` or later; 0: none. */
int version_pages_next(const struct version_pages *pages, size_t from, struct storage_range *run);

/* One of this rank's slots. */
struct own_slot {
    int exists;
    int is_sized;     /* its file has the length of this part */
    uint64_t version; /* a version that all ranks have; 0: none, it may be overwritten */
    struct version_pages stale_pages; /* pages that may differ from the window */
    int must_compare;                 /* many of these may be equal: compare before writing */
};

/* The versions of a window, in one of its ranks. */
struct versions {
    struct versions_part part;
    char *path; /* owned */
    struct versions_group group;
    const struct versions_io *io;
    int directory, lock; /* descriptors */
    mode_t mode;         /* of new slots */
    int is_new;          /* this process created the directory */
    unsigned char job[VERSIONS_ID];
    uint64_t newest; /* version; 0: none */
    /* 0, or the device's error after which no version can be committed. */
    int failed;
    int has_reflinks;    /* as far as is known */
    int has_stale_slots; /* slots of other ranks, or of more kept versions, remain */
    /* Checksums of the part's blocks; out of date for blocks with pages in `stale_sums`. */
    uint32_t *sums;
    struct version_pages stale_sums;
    uint32_t slot_count; /* kept versions + 1 */
    struct own_slot *slots;
};

/* open.c: the same result on all ranks: 0 if all have 0, otherwise the error of one. A rank that
 * failed keeps its error's text. */
int versions_agree(const struct versions *versions, int result);

/* open.c: whether this rank handles the files of `rank` of the job that wrote them. */
int versions_is_responsible_for(const struct versions *versions, uint32_t rank);

/* open.c: removes slots that hold no kept version and will not be written again. Local. */
void versions_remove_stale_slots(struct versions *versions);

#endif
