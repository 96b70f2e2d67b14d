/* src/storage/versions/format.c: the bytes of a slot's header. */
#include "storage/versions/slots.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

/* ---- CRC-32C ----
 *
 * Uses the instruction of SSE 4.2 where the CPU has it: about 8 bytes in 3 cycles, so that
 * checksums are never what a commit waits for. */

static uint32_t table[256];

static void fill_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = (value >> 1) ^ (value & 1 ? UINT32_C(0x82f63b78) : 0);
        table[i] = value;
    }
}

uint32_t versions_crc_plain(const void *data, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const unsigned char *at = data;
    uint32_t crc = UINT32_MAX;
    pthread_once(&once, fill_table);
    for (size_t i = 0; i < size; i++)
        crc = (crc >> 8) ^ table[(crc ^ at[i]) & 255];
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_sse(const void *data, size_t size)
{
    const unsigned char *at = data;
    uint64_t crc = UINT32_MAX;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; size; size--, at++)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *at);
    return ~(uint32_t)crc;
}

uint32_t versions_crc(const void *data, size_t size)
{
    return __builtin_cpu_supports("sse4.2") ? crc_sse(data, size) : versions_crc_plain(data, size);
}
#else
uint32_t versions_crc(const void *data, size_t size)
{
    return versions_crc_plain(data, size);
}
#endif

/* ---- Where things lie ---- */

uint64_t version_blocks(uint64_t length)
{
    return length / VERSIONS_BLOCK + (length % VERSIONS_BLOCK != 0);
}

uint64_t version_data_at(uint64_t length)
{
    uint64_t end = VERSIONS_SUMS_AT + version_blocks(length) * sizeof(uint32_t);
    return version_blocks(end) * VERSIONS_BLOCK;
}

uint64_t version_size(uint64_t length)
{
    return version_data_at(length) + length;
}

/* ---- Record and mark ---- */

static const char record_magic[8] = "ONESPVER", mark_magic[8] = "ONESPCMP";

/* As in the file. */
struct record_bytes {
    char magic[8];
    uint32_t format, block;
    unsigned char job[VERSIONS_ID], nonce[VERSIONS_ID];
    uint64_t version;
    uint32_t rank, ranks;
    uint64_t offset, length;
    uint32_t is_in_file, sums_crc;
    uint64_t time;
    unsigned char zero[412];
    uint32_t crc; /* of all before it */
};
static_assert(sizeof(struct record_bytes) == VERSIONS_HEADER, "the format is fixed");
static_assert(offsetof(struct record_bytes, version) == 48, "the format is fixed");
static_assert(offsetof(struct record_bytes, time) == 88, "the format is fixed");

struct mark_bytes {
    char magic[8];
    uint64_t version;
    unsigned char nonce[VERSIONS_ID];
    unsigned char zero[476];
    uint32_t crc;
};
static_assert(sizeof(struct mark_bytes) == VERSIONS_HEADER, "the format is fixed");

static uint32_t header_crc(const void *header)
{
    return htole32(versions_crc(header, VERSIONS_HEADER - sizeof(uint32_t)));
}

void version_record_write(const struct version_record *record, unsigned char to[VERSIONS_HEADER])
{
    struct record_bytes bytes = {
        .format = htole32(VERSIONS_FORMAT),
        .block = htole32(VERSIONS_BLOCK),
        .version = htole64(record->version),
        .rank = htole32(record->rank),
        .ranks = htole32(record->ranks),
        .offset = htole64(record->offset),
        .length = htole64(record->length),
        .is_in_file = htole32(record->is_in_file),
        .sums_crc = htole32(record->sums_crc),
        .time = htole64((uint64_t)record->time),
    };
    memcpy(bytes.magic, record_magic, sizeof(bytes.magic));
    memcpy(bytes.job, record->job, VERSIONS_ID);
    memcpy(bytes.nonce, record->nonce, VERSIONS_ID);
    bytes.crc = header_crc(&bytes);
    memcpy(to, &bytes, sizeof(bytes));
}

/* Checks what arithmetic elsewhere relies on. */
static int is_sensible(const struct record_bytes *bytes)
{
    uint64_t offset = le64toh(bytes->offset), length = le64toh(bytes->length);
    uint64_t version = le64toh(bytes->version);
    return version && version <= VERSIONS_NUMBER_MAX &&
           le32toh(bytes->rank) < le32toh(bytes->ranks) &&
           le32toh(bytes->block) == VERSIONS_BLOCK && length <= INT64_MAX / 2 &&
           offset <= INT64_MAX - length;
}

int version_record_read(struct version_record *record, const unsigned char from[VERSIONS_HEADER])
{
    struct record_bytes bytes;
    memcpy(&bytes, from, sizeof(bytes));
    if (memcmp(bytes.magic, record_magic, sizeof(bytes.magic)) != 0 ||
        bytes.crc != header_crc(&bytes))
        return -ENODATA;
    if (le32toh(bytes.format) != VERSIONS_FORMAT)
        return -EPROTONOSUPPORT;
    if (!is_sensible(&bytes))
        return -ENODATA;
    *record = (struct version_record){
        .version = le64toh(bytes.version),
        .rank = le32toh(bytes.rank),
        .ranks = le32toh(bytes.ranks),
        .offset = le64toh(bytes.offset),
        .length = le64toh(bytes.length),
        .is_in_file = le32toh(bytes.is_in_file),
        .sums_crc = le32toh(bytes.sums_crc),
        .time = (int64_t)le64toh(bytes.time),
    };
    memcpy(record->job, bytes.job, VERSIONS_ID);
    memcpy(record->nonce, bytes.nonce, VERSIONS_ID);
    return 0;
}

void version_mark_write(const struct version_record *record, unsigned char to[VERSIONS_HEADER])
{
    struct mark_bytes bytes = {.version = htole64(record->version)};
    memcpy(bytes.magic, mark_magic, sizeof(bytes.magic));
    memcpy(bytes.nonce, record->nonce, VERSIONS_ID);
    bytes.crc = header_crc(&bytes);
    memcpy(to, &bytes, sizeof(bytes));
}

uint64_t version_mark_read(const unsigned char from[VERSIONS_HEADER])
{
    struct mark_bytes bytes;
    memcpy(&bytes, from, sizeof(bytes));
    int is_mark = memcmp(bytes.magic, mark_magic, sizeof(bytes.magic)) == 0 &&
                  bytes.crc == header_crc(&bytes);
    return is_mark ? le64toh(bytes.version) : 0;
}

int version_mark_fits(const struct version_record *record,
                      const unsigned char from[VERSIONS_HEADER])
{
    unsigned char expected[VERSIONS_HEADER];
    version_mark_write(record, expected);
    return memcmp(expected, from, VERSIONS_HEADER) == 0;
}

int version_is_same(const struct version_record *a, const struct version_record *b)
{
    return a->version == b->version && a->ranks == b->ranks &&
           memcmp(a->nonce, b->nonce, VERSIONS_ID) == 0;
}
