/* src/storage/versions/state.h: the state of one rank's versions; private to this directory. */
#ifndef ONESPACE_STORAGE_VERSIONS_STATE_H
#define ONESPACE_STORAGE_VERSIONS_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "storage/versions/slots.h"

/* ---- Sets of pages ---- */

/* sets of pages of a part, one bit each; page 0 begins at the part's
 * first byte. */

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
/* The next run of pages in the set that begins at byte `from` or later; 0: there is none. */
int version_pages_next(const struct version_pages *pages, size_t from, struct storage_range *run);

/* what one rank knows of its versions; shared by the files of this
 * directory. */

/* One of this rank's slots. */
struct own_slot {
    int exists;
    int is_sized;     /* it has the length and place of this part */
    uint64_t version; /* that it holds and all ranks have; 0: none, it may be overwritten */
    struct version_pages lacks; /* pages in which it may differ from the window */
    int is_unsure;              /* many of these may be equal: compare before writing */
};

struct versions {
    struct versions_part part;
    char *path; /* owned */
    struct versions_group group;
    const struct versions_io *io;
    int directory, lock; /* descriptors */
    mode_t mode;         /* of new slots */
    int is_new;          /* this opening made the directory */
    unsigned char job[VERSIONS_ID];
    uint64_t newest; /* version; 0: none */
    /* 0, or the device's error after which no version can be made. */
    int failed;
    int can_clone;     /* the file system has reflinks, as far as is known */
    int has_leftovers; /* slots of other ranks, or of more kept versions, have to be removed */
    /* Of the part's blocks; out of date for those with pages in `unsummed`. */
    uint32_t *sums;
    struct version_pages unsummed;
    uint32_t slot_count; /* kept versions + 1 */
    struct own_slot *slots;
};

/* The same outcome on all ranks: 0 when all have 0, else the error of one. A rank that failed keeps
 * its error's text. */
int versions_agree(const struct versions *versions, int mine);

/* Whether this rank is responsible for the files of `rank` of the job that wrote them. */
int versions_is_mine(const struct versions *versions, uint32_t rank);

/* ---- choose.c ---- */

/* A version, as seen in one rank's directory. */
struct version_choice {
    struct version_record record; /* of one of its slots; version 0: none was chosen */
    int is_marked;                /* as far as this directory shows */
};
/* Finds the newest version that all ranks have, the same on all. On success the error may have a
 * text, too: which version is given up. Collective. */
int versions_choose(const struct versions *versions, const struct version_slots *slots,
                    struct version_choice *choice, struct storage_error *error);

/* ---- restore.c ---- */

/* Restores the part to the choice. Local. */
int versions_restore(struct versions *versions, const struct version_slots *slots,
                     const struct version_choice *choice, struct storage_error *error);
/* Makes the choice durable and complete here, and invalidates all newer versions. Local. */
int versions_settle(struct versions *versions, const struct version_slots *slots,
                    const struct version_choice *choice, struct storage_error *error);
/* Removes slots that hold no kept version and will not be written again. Local. */
void versions_tidy(struct versions *versions);

/* ---- write.c ---- */

/* One commit, as this rank makes it. */
struct commit {
    struct version_record record;
    uint32_t number; /* of the slot */
    int fd;          /* of the slot, -1: not open */
    int is_new;      /* the file was made by this commit */
};

/* Notes what changed, then writes part and record to a slot, durably. Local. */
int versions_write(struct versions *versions, struct commit *commit, struct storage_error *error);

#endif
