/* src/storage/versions/state.h: what one rank knows of its versions, between the files that open,
 * commit and close them. */
#ifndef ONESPACE_STORAGE_VERSIONS_STATE_H
#define ONESPACE_STORAGE_VERSIONS_STATE_H

#include "storage/versions/versions.h"
#include "storage/versions/format.h"
#include "storage/versions/pages.h"
#include "storage/versions/slots.h"

/* One of this rank's files that takes versions in turn. */
struct own_slot {
    int exists;
    int is_sized;               /* it has the length and the place of this part */
    uint64_t version;           /* that it holds and all ranks have; 0: none, it may be written */
    struct version_pages lacks; /* pages in which it may differ from the part */
    int is_unsure;              /* many of them may be equal: compare before writing */
};

struct versions {
    struct versions_part part;
    char *path; /* owned */
    struct versions_group group;
    const struct versions_io *io;
    int folder, lock; /* descriptors */
    unsigned char job[VERSIONS_ID];
    uint64_t newest; /* version; 0: none */
    /* 0, or the error of the device that ended the making of versions. */
    int failed;
    int can_clone;     /* the file system has reflinks, as far as is known */
    int has_leftovers; /* slots of other ranks or of more kept versions, to be removed in time */
    /* Of the part's blocks, but for those of pages in `unsummed`. */
    uint32_t *sums;
    struct version_pages unsummed;
    uint32_t slot_count; /* kept versions and one */
    struct own_slot *slots;
};

/* The same outcome for all ranks: 0 when all have 0, else the error of one. A rank that failed
 * keeps its error's text. */
int versions_agree(const struct versions *versions, int mine);

/* Whether files of this rank of the job that wrote them are this one's to keep in order. */
int versions_is_mine(const struct versions *versions, uint32_t rank);

/* ---- choose.c ---- */

/* A version as one rank's folder shows it. */
struct version_choice {
    struct version_record record; /* of one of its slots; version 0: nothing was chosen */
    int is_marked;                /* as far as this folder shows */
};
/* Finds the newest version that all ranks have, the same on all. With success the error may have a
 * text too: what is given up. Collective. */
int versions_choose(const struct versions *versions, const struct version_slots *slots,
                    struct version_choice *choice, struct storage_error *error);

/* ---- restore.c ---- */

/* Brings the part's bytes to those of the choice. Local. */
int versions_restore(struct versions *versions, const struct version_slots *slots,
                     const struct version_choice *choice, struct storage_error *error);
/* Makes the choice durable and complete here, and all that came after it invalid. Local. */
int versions_settle(struct versions *versions, const struct version_slots *slots,
                    const struct version_choice *choice, struct storage_error *error);
/* Removes what belongs to no kept version and will not be written again. Local. */
void versions_tidy(struct versions *versions);

/* ---- write.c ---- */

/* One commit, as this rank makes it. */
struct commit {
    struct version_record record;
    uint32_t number; /* of the slot */
    int fd;          /* of the slot, -1: not open */
    int is_new;      /* the file was made by this commit */
};

/* Notes what changed, and makes the commit's slot hold the part and its record, durably. Local. */
int versions_write(struct versions *versions, struct commit *commit, struct storage_error *error);

#endif
