/* tests/fuzz/versions_open_fuzz.c: any files in FILE.versions, then a window is opened on them.
 *
 * The input is 6 bytes from which the window is made, then a list of files: what is right about it
 * (below), rank and number of its name, 15 bytes from which its record is made. Beyond not
 * crashing: when the window opens, its bytes are those of the version that it names, a commit makes
 * a version, and the window opens with that one again. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/versions/slots.h"
#include "fuzz.h"

enum {
    SLOTS = 6,
    WINDOW = 6,
    FIELDS = 15,
    PART_MAX = VERSIONS_BLOCK + 8192,
    MARKED = 1,
    SUMMED = 2,     /* the sums of its data are right */
    TORN = 4,       /* the record is damaged */
    SHORT = 8,      /* the file ends before its data do */
    OTHER_KIND = 48 /* a directory, a FIFO or a link */
};

static char directory[64], path[80];
static char bytes[PART_MAX];
static size_t part_length;

static void prepare(void)
{
    const char *place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(directory, sizeof(directory), "%s/onespace-fuzz-XXXXXX", place);
    require(mkdtemp(directory) != NULL, "a directory");
    snprintf(path, sizeof(path), "%s/data", directory);
}

static void clean(int is_end)
{
    char command[128];
    snprintf(command, sizeof(command), "%s.versions", path);
    int fd = open(command, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (uint32_t rank = 0; fd >= 0 && rank < 4; rank++)
        for (uint32_t number = 0; number < SLOTS; number++) {
            char name[SLOT_NAME];
            if (unlinkat(fd, slot_name(name, rank, number), 0) != 0)
                (void)unlinkat(fd, name, AT_REMOVEDIR);
        }
    if (fd >= 0) {
        (void)unlinkat(fd, "lock", 0);
        close(fd);
    }
    (void)rmdir(command);
    if (is_end)
        (void)rmdir(directory);
}

static void clean_at_exit(void)
{
    clean(1);
}

/* ---- The files ---- */

static struct version_record record_of(const uint8_t *from)
{
    static const uint64_t lengths[] = {0, 1, 5000, VERSIONS_BLOCK, VERSIONS_BLOCK + 1, PART_MAX};
    struct version_record record = {
        .version = from[0] < 250 ? from[0] % 8 : UINT64_MAX >> from[0] % 4,
        .rank = from[1] % 4,
        .ranks = from[2] % 4 + 1,
        .offset = from[3] < 250 ? (uint64_t)from[3] % 8 * 1000 : INT64_MAX - (uint64_t)from[4],
        .length = from[5] < 250 ? lengths[from[5] % 6] : INT64_MAX / 2 - (uint64_t)from[4],
        .is_in_file = from[6] % 2,
        .time = from[7],
    };
    memset(record.nonce, from[8] % 3, sizeof(record.nonce));
    return record;
}

/* All bytes of a version are the same. */
static unsigned char byte_of(uint64_t version, unsigned nonce)
{
    return (unsigned char)(version * 31 + nonce * 7 + 1);
}

static void write_sums(int fd, struct version_record *record, unsigned what)
{
    static char block[VERSIONS_BLOCK];
    uint32_t sums[PART_MAX / VERSIONS_BLOCK + 1] = {0};
    size_t blocks = version_blocks(record->length);
    memset(block, byte_of(record->version, record->nonce[0]), sizeof(block));
    for (size_t i = 0; i < blocks; i++) {
        uint64_t at = i * VERSIONS_BLOCK, left = record->length - at;
        size_t size = left < VERSIONS_BLOCK ? left : VERSIONS_BLOCK;
        sums[i] = versions_crc(block, size) ^ !(what & SUMMED);
        (void)slot_write(&versions_io_system, fd, block, size,
                         version_data_at(record->length) + at);
    }
    record->sums_crc = versions_crc(sums, blocks * sizeof(*sums));
    (void)slot_write(&versions_io_system, fd, sums, blocks * sizeof(*sums), VERSIONS_SUMS_AT);
}

static void write_slot(int fd, struct version_record record, unsigned what)
{
    unsigned char header[VERSIONS_HEADER];
    if (record.length <= PART_MAX)
        write_sums(fd, &record, what);
    version_record_write(&record, header);
    header[100] ^= what & TORN ? 1 : 0;
    (void)slot_write(&versions_io_system, fd, header, sizeof(header), VERSIONS_RECORD_AT);
    version_mark_write(&record, header);
    if (what & MARKED)
        (void)slot_write(&versions_io_system, fd, header, sizeof(header), VERSIONS_MARK_AT);
    if (what & SHORT)
        (void)!ftruncate(fd, (off_t)(version_size(record.length % PART_MAX) / 2));
}

static void make_file(int at, const uint8_t *from)
{
    char name[SLOT_NAME];
    unsigned what = from[0];
    slot_name(name, from[1] % 4, from[1] / 4 % SLOTS);
    if ((what & OTHER_KIND) == 16)
        (void)!mkfifoat(at, name, 0600);
    else if ((what & OTHER_KIND) == 32)
        (void)!symlinkat(from[1] % 2 ? "lock" : "none", at, name);
    else if ((what & OTHER_KIND) == OTHER_KIND)
        (void)!mkdirat(at, name, 0700);
    else {
        int fd = openat(at, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (fd >= 0)
            write_slot(fd, record_of(from + 2), what);
        if (fd >= 0)
            close(fd);
    }
}

/* ---- The window ---- */

/* Everything may have changed. */
static int changes(void *context, struct storage_ranges *ranges)
{
    (void)context;
    ranges->range = calloc(1, sizeof(*ranges->range));
    require(ranges->range != NULL, "memory");
    ranges->range[0].length = part_length;
    ranges->count = part_length != 0;
    return 1;
}

/* As if the other ranks had what this one has, which is rank 0: it draws the nonces. */
static int broadcast(void *context, void *data, size_t size)
{
    (void)context, (void)data, (void)size;
    return 0;
}

static int least(void *context, int64_t mine, int64_t *result)
{
    (void)context;
    *result = mine;
    return 0;
}

static int flush(int fd)
{
    (void)fd;
    return 0;
}

static int open_window(const uint8_t *from, struct versions **versions)
{
    static const size_t lengths[] = {0, 1, 5000, VERSIONS_BLOCK + 1, PART_MAX, 4096};
    static struct versions_io io = {pwrite, flush, flush, NULL};
    struct storage_error error;
    io.random = versions_io_system.random;
    part_length = lengths[from[0] % 6];
    struct versions_part part = {
        .path = path,
        .base = bytes,
        .length = part_length,
        .is_in_file = from[1] % 2,
        .offset = (uint64_t)from[2] % 8 * 1000,
        .changes = changes,
    };
    uint32_t ranks = from[3] % 4 + 1;
    struct versions_group group = {NULL, 0, ranks, broadcast, least};
    int result = versions_open(&part, &group, from[4] % 3 + 1u, &io, versions, &error);
    require(memchr(error.text, 0, sizeof(error.text)) != NULL, "a text");
    return result;
}

/* One commit's bytes, also where several ranks' slots have filled the part. */
static void check_restored(uint64_t version)
{
    int is_of_one = 0;
    for (unsigned nonce = 0; nonce < 3; nonce++) {
        size_t i = 0;
        while (i < part_length && (unsigned char)bytes[i] == byte_of(version, nonce))
            i++;
        is_of_one |= i == part_length;
    }
    require(is_of_one, "what is restored is of one version");
}

static void check_window(const uint8_t *from)
{
    struct versions *versions = NULL;
    struct storage_error error;
    memset(bytes, 'x', sizeof(bytes));
    int result = open_window(from, &versions);
    if (result != 0)
        return;
    uint64_t newest = versions_newest(versions);
    require(newest <= VERSIONS_NUMBER_MAX, "a version");
    if (newest)
        check_restored(newest);
    if (part_length)
        memset(bytes, 'c', part_length);
    result = versions_commit(versions, &error);
    require(result == (newest == VERSIONS_NUMBER_MAX ? -EOVERFLOW : 0), error.text);
    versions_close(versions);
    if (result != 0)
        return;
    memset(bytes, 'y', sizeof(bytes));
    require(open_window(from, &versions) == 0, "what was committed opens");
    require(versions_newest(versions) == newest + 1, "the newest version is found");
    for (size_t i = 0; i < part_length; i++)
        require(bytes[i] == 'c', "what was committed is restored");
    versions_close(versions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[100];
    if (size < WINDOW)
        return 0;
    if (!directory[0]) {
        prepare();
        atexit(clean_at_exit);
    }
    snprintf(name, sizeof(name), "%s.versions", path);
    require(mkdir(name, 0700) == 0, "the directory of versions");
    int at = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(at >= 0, "the directory of versions");
    for (size_t i = WINDOW; i + 2 + FIELDS <= size; i += 2 + FIELDS)
        make_file(at, data + i);
    close(at);
    check_window(data);
    clean(0);
    return 0;
}
