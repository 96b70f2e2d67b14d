/* tests/fuzz/version_record_fuzz.c: any bytes as a slot: record, mark, sums and data of a version.
 *
 * The first byte says what is made right, since hardly any input would get past the sums otherwise:
 * MAGIC, RECORD_SUM, MARK and SUMS. The next two make the file longer than the input. Beyond not
 * crashing: a record that is read is written and read again the same, its mark fits no other
 * record, and of data that are read every byte is in the file and has the right sum. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "storage/versions/slots.h"
#include "fuzz.h"

enum { MAGIC = 1, RECORD_SUM = 2, MARK = 4, SUMS = 8, FILE_MAX = 1 << 20, HEAD = 96 };

static unsigned char file[FILE_MAX];

static void put32(size_t at, uint32_t value)
{
    value = htole32(value);
    memcpy(file + at, &value, sizeof(value));
}

/* Makes the sums of the blocks that the record's length says, as far as there is room. */
static void make_sums(size_t size)
{
    uint64_t length;
    memcpy(&length, file + 72, sizeof(length));
    length = le64toh(length);
    if (length > FILE_MAX || version_size(length) > size)
        return;
    uint64_t blocks = version_blocks(length), data = version_data_at(length);
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t left = length - i * VERSIONS_BLOCK;
        put32(VERSIONS_SUMS_AT + i * 4,
              versions_crc(file + data + i * VERSIONS_BLOCK,
                           left < VERSIONS_BLOCK ? left : VERSIONS_BLOCK));
    }
    put32(84, versions_crc(file + VERSIONS_SUMS_AT, blocks * 4));
}

static void make_right(size_t size, unsigned what)
{
    struct version_record record;
    if (what & MAGIC)
        memcpy(file, "ONESPVER\1\0\0\0\0\0\1\0", 16);
    if (what & SUMS)
        make_sums(size);
    if (what & RECORD_SUM)
        put32(VERSIONS_HEADER - 4, versions_crc(file, VERSIONS_HEADER - 4));
    if (what & MARK && version_record_read(&record, file) == 0)
        version_mark_write(&record, file + VERSIONS_MARK_AT);
}

static int visit(void *context, uint64_t at, const void *data, size_t size)
{
    const struct version_record *record = context;
    uint64_t place = version_data_at(record->length) + at;
    require(at + size <= record->length && place + size <= FILE_MAX, "data lie in the file");
    require(memcmp(file + place, data, size) == 0, "data are those of the file");
    return 0;
}

static void check_record(const struct version_record *record)
{
    unsigned char bytes[VERSIONS_HEADER];
    struct version_record again, other = *record;
    version_record_write(record, bytes);
    require(version_record_read(&again, bytes) == 0 && memcmp(record, &again, sizeof(again)) == 0,
            "a record is read as it was written");
    require(record->version && record->version <= VERSIONS_NUMBER_MAX, "there is a next version");
    require(record->rank < record->ranks, "a rank of the job");
    version_mark_write(record, bytes);
    other.nonce[0] ^= 1;
    require(version_mark_fits(record, bytes) && !version_mark_fits(&other, bytes),
            "a mark fits its own record only");
}

static void check_file(size_t size)
{
    struct version_record record;
    uint64_t bad;
    if (version_record_read(&record, file) != 0)
        return;
    check_record(&record);
    int fd = memfd_create("slot", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, file, size) == (ssize_t)size, "a file");
    /* As slots_scan, which takes no shorter file for a slot. */
    if (size >= version_size(record.length)) {
        int result = slot_each_block(fd, &record, 0, record.length, visit, &record, &bad);
        require(result == 0 || result == -EUCLEAN, "whole or damaged");
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    size_t whole = (size_t)(data[1] | data[2] << 8) * 16, copied = size - 3;
    size_t head = copied < HEAD ? copied : HEAD, rest = copied - head;
    if (whole < VERSIONS_SUMS_AT)
        whole = VERSIONS_SUMS_AT;
    memset(file, 0, whole);
    memcpy(file, data + 3, head);
    /* The bytes behind the record go to mark, sums and data alike. */
    for (size_t at = VERSIONS_MARK_AT; rest && at + rest <= whole; at += 31 * 1024)
        memcpy(file + at, data + 3 + head, rest);
    make_right(whole, data[0]);
    check_file(whole);
    return 0;
}
