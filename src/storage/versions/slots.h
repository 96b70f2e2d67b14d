/* src/storage/versions/slots.h: the files in FILE.versions/: rank-R.slot-S, and the file `lock`.
 *
 * A rank writes its versions to its slots in turn: one slot more than versions are kept. The slot
 * that is being written never holds one of those. A job with other ranks leaves slots that the
 * next commits remove. */
#ifndef ONESPACE_STORAGE_VERSIONS_SLOTS_H
#define ONESPACE_STORAGE_VERSIONS_SLOTS_H

#include "storage/versions/versions.h"
#include "storage/versions/format.h"

enum slot_state {
    SLOT_EMPTY,    /* nothing, or torn */
    SLOT_PREPARED, /* this rank's part is durable; whether all parts are, is not known here */
    SLOT_COMPLETE, /* marked: all ranks' parts were durable */
};

struct version_slot {
    uint32_t rank, number; /* as its name says */
    enum slot_state state;
    struct version_record record; /* unless it is empty */
    uint64_t disk_bytes;          /* that it occupies */
};

struct version_slots {
    struct version_slot *slot; /* owned: free(); by rank and number */
    size_t count;
};

enum { SLOT_NAME = 48 };
/* Into name, which is returned. */
char *slot_name(char name[SLOT_NAME], uint32_t rank, uint32_t number);

/* "FILE.versions", owned by the caller; NULL: no memory. */
char *versions_folder_name(const char *path);
/* A descriptor of the folder, which is made, durably, when it is missing. */
int versions_folder_open(const char *path, const struct versions_io *io,
                         struct storage_error *error);
/* Keeps others off `count` ranks' slots until *fd is closed; 0: all ranks. -EBUSY: somebody has
 * them. */
int versions_lock(int folder, const char *path, uint32_t rank, uint32_t count, int *fd,
                  struct storage_error *error);

/* What is in the folder. An unreadable or unknown file is an error. */
int slots_scan(int folder, const char *path, struct version_slots *slots,
               struct storage_error *error);

/* A descriptor of one slot's file. flags: of open(2). */
int slot_open(int folder, const char *path, uint32_t rank, uint32_t number, int flags,
              struct storage_error *error);
/* All of it. 0 or -errno. */
int slot_write(const struct versions_io *io, int fd, const void *data, size_t size, uint64_t at);
int slot_read(int fd, void *data, size_t size, uint64_t at);
/* The sums of its blocks, checked against the record; owned by the caller. -EUCLEAN: damaged. */
int slot_read_sums(int fd, const struct version_record *record, uint32_t **sums);
/* Makes record and mark unreadable, durably. */
int slot_invalidate(const struct versions_io *io, int fd);
/* Marks the slot's version as complete, durably. */
int slot_mark(const struct versions_io *io, int fd, const struct version_record *record);

/* Gives each block of the slot's data to `visit` once its sum was checked: `at` counts from the
 * part's first byte. -EUCLEAN: *bad is the first damaged block's place. */
typedef int slot_visit(void *context, uint64_t at, const void *data, size_t size);
int slot_each_block(int fd, const struct version_record *record, uint64_t from, uint64_t to,
                    slot_visit *visit, void *context, uint64_t *bad);

#endif
