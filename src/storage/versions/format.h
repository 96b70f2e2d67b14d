/* src/storage/versions/format.h: the bytes of a slot: one rank's part of one version in a file.
 *
 *   0          record: what the slot holds
 *   4096       mark: the record's version is complete on every rank
 *   8192       sums: CRC-32C of each block of data, 4 bytes each
 *   data_at    data: the rank's bytes of the window; a multiple of VERSIONS_BLOCK
 *
 * Numbers are little-endian. Record and mark end with a CRC-32C of themselves. Each is in a page of
 * its own, so that a device that writes sectors of up to 4096 bytes never tears one while writing
 * the other. */
#ifndef ONESPACE_STORAGE_VERSIONS_FORMAT_H
#define ONESPACE_STORAGE_VERSIONS_FORMAT_H

#include <stdint.h>

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

/* A record with a larger number is none: ranks exchange numbers as signed ones, and there must be a
 * next one. */
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
/* Whether it is the mark of this record. */
int version_mark_fits(const struct version_record *record,
                      const unsigned char from[VERSIONS_HEADER]);

/* Whether two records belong to one commit. */
int version_is_same(const struct version_record *a, const struct version_record *b);

#endif
