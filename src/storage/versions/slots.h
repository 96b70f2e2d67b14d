/* src/storage/versions/slots.h: the files in FILE.versions/: rank-R.slot-S and `lock`.
 *
 * A rank has one slot more than versions are kept and writes its versions to them in rotation, so
 * the slot being written never holds a kept version. A job with other ranks leaves slots that the
 * next commits remove. */
#ifndef ONESPACE_STORAGE_VERSIONS_SLOTS_H
#define ONESPACE_STORAGE_VERSIONS_SLOTS_H

#include "storage/versions/format.h"
#include "storage/versions/versions.h"

enum slot_state {
    SLOT_EMPTY,    /* nothing, or torn */
    SLOT_PREPARED, /* this rank's part is durable; the other ranks' may not be */
    SLOT_COMPLETE, /* marked: all ranks' parts are durable */
};

struct version_slot {
    uint32_t rank, number; /* from its name */
    enum slot_state state;
    struct version_record record; /* unless it is empty */
    uint64_t disk_bytes;          /* allocated */
};

struct version_slots {
    struct version_slot *slot; /* owned: free(); by rank and number */
    size_t count;
};

enum { SLOT_NAME = 48 };
/* Fills and returns `name`. */
char *slot_name(char name[SLOT_NAME], uint32_t rank, uint32_t number);

/* "FILE.versions", owned by the caller; NULL: no memory. */
char *versions_directory_name(const char *path);
/* Versions are as accessible to others as the data: permissions of the file at `path`. */
mode_t versions_data_mode(const char *path);
/* A descriptor of the directory, which is created, durably, if it is missing: then *is_new is 1,
 * also when something fails afterwards. */
int versions_directory_open(const char *path, const struct versions_io *io, int *is_new,
                            struct storage_error *error);
/* A descriptor of the directory of an existing file's versions, or -errno; refusal: as that of
 * storage_entry_open. */
int versions_directory_find(const char *path, const char **refusal);
/* Removes the directory, which is open, if it has no slots. */
void versions_directory_remove(int directory, const char *path);
/* Locks the slots of `count` ranks until *fd is closed; 0: of all ranks. -EBUSY: somebody has them.
 */
int versions_lock(int directory, const char *path, uint32_t rank, uint32_t count, int *fd,
                  struct storage_error *error);

/* Lists the directory. An unreadable or unknown file is an error. */
int slots_scan(int directory, const char *path, struct version_slots *slots,
               struct storage_error *error);

/* A descriptor of one slot's file. flags: of open(2); a new file is accessible to its owner only.
 */
int slot_open(int directory, const char *path, uint32_t rank, uint32_t number, int flags,
              struct storage_error *error);
/* Transfer all bytes. 0 or -errno. */
int slot_write(const struct versions_io *io, int fd, const void *data, size_t size, uint64_t at);
int slot_read(int fd, void *data, size_t size, uint64_t at);
/* Reads the sums of the slot's blocks and checks them against the record; owned by the caller.
 * -EUCLEAN: damaged. */
int slot_read_sums(int fd, const struct version_record *record, uint32_t **sums);
/* Makes record and mark unreadable, durably. */
int slot_invalidate(const struct versions_io *io, int fd);
/* Marks the slot's version as complete, durably. */
int slot_mark(const struct versions_io *io, int fd, const struct version_record *record);

/* Passes each block of the slot's data in [from, to) to `visit` after checking its sum; `at` counts
 * from the part's first byte. -EUCLEAN: *bad is the place of the first damaged block. */
typedef int slot_visit(void *context, uint64_t at, const void *data, size_t size);
int slot_each_block(int fd, const struct version_record *record, uint64_t from, uint64_t to,
                    slot_visit *visit, void *context, uint64_t *bad);

#endif
