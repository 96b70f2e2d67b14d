/* cmd/windows/windows.h: what `onespace windows` finds in the version directories of some files. */
#ifndef ONESPACE_CMD_WINDOWS_WINDOWS_H
#define ONESPACE_CMD_WINDOWS_WINDOWS_H

#include "storage/versions/slots.h"

/* One rank's part of a version. */
struct windows_part {
    const char *file; /* the data file, as given */
    int directory;    /* descriptor of its versions; the same for all parts of one file */
    struct version_slot slot;
    int damage;         /* 0, or the error that reading it gave (-EUCLEAN: a sum is wrong) */
    uint64_t damage_at; /* byte of the part */
};

enum windows_state {
    WINDOWS_COMPLETE,
    WINDOWS_ELSEWHERE,  /* marked, so complete once; parts of some ranks are in none of the files */
    WINDOWS_UNFINISHED, /* its commit did not come to an end */
    WINDOWS_DAMAGED,    /* complete, and data of a part are not what was written */
};

/* A version with its parts in the files, which may belong to several windows. */
struct windows_version {
    struct windows_part *part; /* by rank */
    unsigned count, present;   /* parts; different ranks among them */
    enum windows_state state;
    uint64_t bytes, disk_bytes; /* of the parts that are here */
};

struct windows_list {
    struct windows_part *parts; /* the newest version first */
    size_t part_count;
    struct windows_version *versions;
    size_t version_count;
    int *directories; /* by file */
    int *locks;       /* by file, -1: not locked */
    unsigned files;
};

/* Reads all files. verify: reads every part of complete versions. lock: jobs cannot open them until
 * windows_free. 0, or -errno with the error's text set; windows_free in both cases. */
int windows_read(struct windows_list *list, char **files, unsigned count, int verify, int lock,
                 struct storage_error *error);
void windows_free(struct windows_list *list);

/* Gives up versions that are damaged or unfinished, so that the newest good one is taken, and marks
 * every part of a complete one. Says what it does on standard output. Never gives up the only
 * version of a file that is complete. -errno: the error's text is set. */
int windows_repair(struct windows_list *list, struct storage_error *error);

/* "complete", "elsewhere", "unfinished", "damaged" */
const char *windows_state_name(enum windows_state state);

#endif
