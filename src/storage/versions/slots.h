/* src/storage/versions/slots.h: the files in FILE.versions/ and their format. */
#ifndef ONESPACE_STORAGE_VERSIONS_SLOTS_H
#define ONESPACE_STORAGE_VERSIONS_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "storage/versions/versions.h"

/* CRC-32C (Castagnoli), as in iSCSI (RFC 3720, B.4). */

/* The CRC of `size` bytes. */
uint32_t versions_crc(const void *data, size_t size);
/* The same without the CPU's instruction, for tests. */
uint32_t versions_crc_plain(const void *data, size_t size);

/* ---- Format of a slot ---- */

/*   0          record: what the slot holds
 *   4096       mark: the record's version is complete on every rank
 *   8192       sums: CRC-32C of each block of data, 4 bytes each
 *   data_at    data: the rank's bytes of the window; a multiple of VERSIONS_BLOCK
 *
 * Numbers are little-endian. Record and mark end with a CRC-32C of themselves. Each is in a page of
 * its own, so that a device that writes sectors of up to 4096 bytes never tears one while writing
 * the other. */

enum {
    VERSIONS_FORMAT = 1,
    VERSIONS_PAGE = 4096,   /* unit of comparing and writing */
    VERSIONS_BLOCK = 65536, /* unit of checksums */
    VERSIONS_RECORD_AT = 0,
    VERSIONS_MARK_AT = 4096,
    VERSIONS_SUMS_AT = 8192,
    VERSIONS_ID = 16,     /* bytes of a job's UUID and of a nonce */
    VERSIONS_HEADER = 512 /* bytes written of record and mark */
};

/* A record with a larger number is invalid: the ranks exchange numbers as int64_t, and the next
 * number must exist, too. */
#define VERSIONS_NUMBER_MAX ((uint64_t)INT64_MAX / 2)

struct version_record {
    unsigned char job[VERSIONS_ID]; /* the run that wrote it: a random UUID */
    /* Fresh for each commit, so that records of two commits with the same number are never taken
     * for one version. */
    unsigned char nonce[VERSIONS_ID];
    uint64_t version;
    uint32_t rank, ranks;
    uint64_t offset, length; /* of the part, bytes */
    uint32_t is_in_file;     /* 1: offset counts in the data file */
    uint32_t sums_crc;       /* CRC-32C of all sums */
    int64_t time;            /* of the commit, seconds since 1970 */
};

uint64_t version_blocks(uint64_t length);
uint64_t version_data_at(uint64_t length);
/* Bytes of the file. */
uint64_t version_size(uint64_t length);

void version_record_write(const struct version_record *record, unsigned char to[VERSIONS_HEADER]);
/* 0; -ENODATA: there is none, or it is torn; -EPROTONOSUPPORT: a later format. */
int version_record_read(struct version_record *record, const unsigned char from[VERSIONS_HEADER]);
void version_mark_write(const struct version_record *record, unsigned char to[VERSIONS_HEADER]);
/* The version of a mark; 0: it is none. */
uint64_t version_mark_read(const unsigned char from[VERSIONS_HEADER]);
/* Whether it is the mark of this record. */
int version_mark_fits(const struct version_record *record,
                      const unsigned char from[VERSIONS_HEADER]);

/* Whether two records belong to one commit. */
int version_is_same(const struct version_record *a, const struct version_record *b);

/* ---- Slots ---- */

/* A rank has one slot more than versions are kept and writes its versions to them in rotation, so
 * the slot being written never holds a kept version. A job with other ranks leaves slots that the
 * next commits remove. */

enum version_slot_state {
    VERSION_SLOT_EMPTY,    /* nothing, or torn */
    VERSION_SLOT_PREPARED, /* this rank's part is durable; the other ranks' may not be */
    VERSION_SLOT_COMPLETE, /* marked: all ranks' parts are durable */
};

struct version_slot {
    uint32_t rank, number; /* from its name */
    enum version_slot_state state;
    struct version_record record; /* unless it is empty */
    uint64_t lost_version;        /* of an empty slot: 0, or the one whose record is damaged */
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
 * also when something fails afterwards. It is not removed then: other ranks may be opening it. */
int versions_directory_open(const char *path, const struct versions_io *io, int *is_new,
                            struct storage_error *error);
/* A descriptor of the directory of an existing file's versions, or -errno; refusal: as that of
 * storage_entry_open. */
int versions_directory_find(const char *path, const char **refusal);
/* Removes the directory if it has no slots, and no other window has locked them. directory, lock:
 * descriptors; < 0: it could not be opened, or not locked. */
void versions_directory_remove(int directory, int lock, const char *path);
/* Locks the slots of `count` ranks until *fd is closed; 0: of all ranks. -EBUSY: another window or
 * job has them.
 */
int versions_lock(int directory, const char *path, uint32_t rank, uint32_t count, int *fd,
                  struct storage_error *error);

/* Lists the directory. Files with other names are skipped; an unreadable slot is an error. */
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
