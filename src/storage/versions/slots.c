/* src/storage/versions/slots.c: the files in FILE.versions/. */
#include "storage/versions/slots.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static int random_bytes(void *bytes, size_t size)
{
    return getrandom(bytes, size, 0) == (ssize_t)size ? 0 : -1;
}

const struct versions_io versions_io_system = {pwrite, storage_fdatasync, storage_fsync,
                                               random_bytes};

/* ---- The directory ---- */

char *versions_directory_name(const char *path)
{
    char *name = NULL;
    return asprintf(&name, "%s.versions", path) < 0 ? NULL : name;
}

static int fail_entry(struct storage_error *error, int result, const char *refusal,
                      const char *name, const char *fix)
{
    if (refusal)
        return storage_fail(error, result, "%s: %s", name, refusal);
    return storage_fail(error, result, "%s: %s: %s", name, strerror(-result), fix);
}

mode_t versions_data_mode(const char *path)
{
    struct stat data;
    return stat(path, &data) == 0 ? data.st_mode & 0666 : 0600;
}

/* Makes the directory's entry durable, and opens it. */
static int open_directory(const struct storage_entry *entry, const struct versions_io *io,
                          const char **refusal)
{
    if (io->flush_directory(entry->directory) != 0)
        return errno == EBADF ? -EACCES : -errno; /* its parent cannot be read: O_PATH */
    return storage_entry_open(entry->directory, entry->name, O_RDONLY | O_DIRECTORY, 0, refusal);
}

static int open_or_create(const struct storage_entry *entry, const char *path,
                          const struct versions_io *io, int *is_new, const char **refusal)
{
    mode_t mode = versions_data_mode(path);
    *is_new = mkdirat(entry->directory, entry->name, 0700) == 0;
    if (!*is_new && errno != EEXIST)
        return -errno;
    /* Also if it existed: its creator may have died before it was durable. */
    int fd = open_directory(entry, io, refusal), result = fd;
    /* Users who may read the file may search its directory. */
    if (fd >= 0 && *is_new && fchmod(fd, 0700 | mode | (mode & 0444) >> 2) != 0) {
        result = -errno;
        close(fd);
    }
    return result;
}

int versions_directory_open(const char *path, const struct versions_io *io, int *is_new,
                            struct storage_error *error)
{
    struct storage_entry entry;
    const char *refusal = NULL;
    char *name = versions_directory_name(path);
    if (!name)
        return storage_fail(error, -ENOMEM, "no memory for the name of the versions of %s", path);
    *is_new = 0;
    int result = storage_entry_find(&entry, name, &refusal);
    if (result == 0)
        result = open_or_create(&entry, path, io, is_new, &refusal);
    storage_entry_close(&entry);
    if (result < 0)
        (void)fail_entry(error, result, refusal, name,
                         "the versions of a window lie in that directory; let it be made, or "
                         "allocate the window without storage_alloc_versions");
    free(name);
    return result;
}

int versions_directory_find(const char *path, const char **refusal)
{
    struct storage_entry entry;
    char *name = versions_directory_name(path);
    *refusal = NULL;
    int result = name ? storage_entry_find(&entry, name, refusal) : -ENOMEM;
    free(name);
    if (result < 0)
        return result;
    result = storage_entry_open(entry.directory, entry.name, O_RDONLY | O_DIRECTORY, 0, refusal);
    storage_entry_close(&entry);
    return result;
}

void versions_directory_remove(int directory, int lock, const char *path)
{
    const char *refusal;
    char *name = versions_directory_name(path);
    int found = directory < 0 ? versions_directory_find(path, &refusal) : -1;
    int within = directory < 0 ? found : directory, opened = -1;
    if (lock < 0)
        lock = opened = storage_entry_open(within, "lock", O_RDWR, 0, &refusal);
    if (lock >= 0 && storage_lock_alone(lock))
        (void)unlinkat(within, "lock", 0);
    if (opened >= 0)
        close(opened);
    if (name)
        (void)rmdir(name); /* an empty directory, whosever it is by now */
    if (found >= 0)
        close(found);
    free(name);
}

int versions_lock(int directory, const char *path, uint32_t rank, uint32_t count, int *fd,
                  struct storage_error *error)
{
    enum { TRIES = 100 };
    struct flock lock = {.l_type = F_WRLCK, .l_start = rank, .l_len = count};
    const char *refusal = NULL;
    int is_open = 0, result = -ESTALE;
    for (int tries = 0; result == -ESTALE && tries < TRIES; tries++) {
        if (is_open)
            close(*fd);
        *fd = storage_entry_open(directory, "lock", O_RDWR | O_CREAT, 0666, &refusal);
        is_open = *fd >= 0;
        result = is_open ? storage_lock(*fd, &lock) : *fd;
        if (result == 0) /* an opening that fails may have removed it before it was locked */
            result = storage_entry_check(directory, "lock", *fd);
    }
    if (result == 0)
        return 0;
    if (is_open)
        close(*fd);
    *fd = -1;
    if (is_open && result == -EWOULDBLOCK)
        return storage_fail(error, -EBUSY,
                            "%s.versions: another window or job has these versions open: wait for "
                            "its end, or give each versioned window a file of its own",
                            path);
    if (refusal)
        return storage_fail(error, result, "%s.versions/lock: %s", path, refusal);
    int is_full = result == -ENOSPC || result == -EDQUOT;
    return storage_fail(error, result, "%s.versions/lock: %s: %s", path, strerror(-result),
                        is_full ? "make room" : "make it readable and writable");
}

/* ---- Slots ---- */

char *slot_name(char name[SLOT_NAME], uint32_t rank, uint32_t number)
{
    snprintf(name, SLOT_NAME, "rank-%u.slot-%u", rank, number);
    return name;
}

int slot_open(int directory, const char *path, uint32_t rank, uint32_t number, int flags,
              struct storage_error *error)
{
    char name[SLOT_NAME];
    const char *refusal;
    int fd = storage_entry_open(directory, slot_name(name, rank, number), flags, 0600, &refusal);
    if (fd < 0)
        (void)storage_fail(error, fd, "%s.versions/%s: %s", path, name,
                           refusal ? refusal : strerror(-fd));
    return fd;
}

int slot_write(const struct versions_io *io, int fd, const void *data, size_t size, uint64_t at)
{
    const char *from = data;
    while (size) {
        ssize_t put = io->write(fd, from, size, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -EIO;
        from += put, at += (uint64_t)put, size -= (size_t)put;
    }
    return 0;
}

int slot_read(int fd, void *data, size_t size, uint64_t at)
{
    char *to = data;
    while (size) {
        ssize_t got = pread(fd, to, size, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -EUCLEAN; /* shorter than its record says */
        to += got, at += (uint64_t)got, size -= (size_t)got;
    }
    return 0;
}

int slot_invalidate(const struct versions_io *io, int fd)
{
    static const unsigned char nothing[VERSIONS_SUMS_AT];
    int result = slot_write(io, fd, nothing, sizeof(nothing), VERSIONS_RECORD_AT);
    return result != 0 ? result : io->flush(fd) == 0 ? 0 : -errno;
}

int slot_mark(const struct versions_io *io, int fd, const struct version_record *record)
{
    unsigned char bytes[VERSIONS_HEADER];
    version_mark_write(record, bytes);
    int result = slot_write(io, fd, bytes, sizeof(bytes), VERSIONS_MARK_AT);
    return result != 0 ? result : io->flush(fd) == 0 ? 0 : -errno;
}

/* The version of a mark whose record is damaged; 0: none. A crash while a slot is invalidated may
 * leave a mark beside a record of zeroes. */
static uint64_t lost_version(const unsigned char bytes[VERSIONS_SUMS_AT])
{
    static const unsigned char nothing[VERSIONS_HEADER];
    int is_record = memcmp(bytes + VERSIONS_RECORD_AT, nothing, VERSIONS_HEADER) != 0;
    uint64_t version = is_record ? version_mark_read(bytes + VERSIONS_MARK_AT) : 0;
    return version <= VERSIONS_NUMBER_MAX ? version : 0;
}

/* A file that is too short for a header is empty. So is a slot with another rank's record: the
 * files were renamed. One that is shorter than its record says is damaged, which shows when it is
 * read: no crash leaves that, because the size is durable before the record. */
static int read_header(int fd, struct version_slot *slot)
{
    unsigned char bytes[VERSIONS_SUMS_AT] = {0};
    struct stat stat;
    if (fstat(fd, &stat) != 0)
        return -errno;
    slot->disk_bytes = (uint64_t)stat.st_blocks * 512;
    slot->state = VERSION_SLOT_EMPTY;
    if (stat.st_size < VERSIONS_SUMS_AT)
        return 0;
    int result = slot_read(fd, bytes, sizeof(bytes), 0);
    if (result == 0)
        result = version_record_read(&slot->record, bytes + VERSIONS_RECORD_AT);
    if (result == -ENODATA)
        slot->lost_version = lost_version(bytes);
    if (result != 0)
        return result == -ENODATA ? 0 : result;
    if (slot->record.rank != slot->rank)
        return 0;
    int is_marked = version_mark_fits(&slot->record, bytes + VERSIONS_MARK_AT);
    slot->state = is_marked ? VERSION_SLOT_COMPLETE : VERSION_SLOT_PREPARED;
    return 0;
}

static int add_slot(struct version_slots *slots, int directory, const char *path,
                    struct version_slot slot, struct storage_error *error)
{
    int fd = slot_open(directory, path, slot.rank, slot.number, O_RDONLY, error);
    if (fd < 0)
        return fd;
    int result = read_header(fd, &slot);
    close(fd);
    if (result == -EPROTONOSUPPORT)
        return storage_fail(error, result,
                            "%s.versions was written by a later onespace: use that one", path);
    if (result != 0)
        return storage_fail(error, result, "%s.versions/rank-%u.slot-%u: %s", path, slot.rank,
                            slot.number, strerror(-result));
    struct version_slot *more = realloc(slots->slot, (slots->count + 1) * sizeof(*more));
    if (!more)
        return storage_fail(error, -ENOMEM, "no memory for the list of versions of %s", path);
    slots->slot = more;
    more[slots->count++] = slot;
    return 0;
}

static int by_name(const void *left, const void *right)
{
    const struct version_slot *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

int slots_scan(int directory, const char *path, struct version_slots *slots,
               struct storage_error *error)
{
    *slots = (struct version_slots){NULL, 0};
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list) {
        result = -errno;
        if (fd >= 0)
            close(fd);
        return storage_fail(error, result, "%s.versions: %s", path, strerror(-result));
    }
    while (result == 0) {
        struct version_slot slot = {0};
        int end = 0;
        errno = 0;
        struct dirent *entry = readdir(list);
        if (!entry && errno)
            result = storage_fail(error, -errno, "%s.versions: %s", path, strerror(errno));
        if (!entry)
            break;
        if (sscanf(entry->d_name, "rank-%u.slot-%u%n", &slot.rank, &slot.number, &end) == 2 &&
            !entry->d_name[end])
            result = add_slot(slots, directory, path, slot, error);
    }
    closedir(list);
    if (result != 0) {
        free(slots->slot);
        *slots = (struct version_slots){NULL, 0};
    } else if (slots->count)
        qsort(slots->slot, slots->count, sizeof(*slots->slot), by_name);
    return result;
}

/* ---- Data ---- */

int slot_read_sums(int fd, const struct version_record *record, uint32_t **sums)
{
    size_t blocks = version_blocks(record->length);
    uint32_t *list = calloc(blocks + 1, sizeof(*list));
    if (!list)
        return -ENOMEM;
    int result = slot_read(fd, list, blocks * sizeof(*list), VERSIONS_SUMS_AT);
    if (result == 0 && versions_crc(list, blocks * sizeof(*list)) != record->sums_crc)
        result = -EUCLEAN;
    if (result != 0) {
        free(list);
        return result;
    }
    for (size_t i = 0; i < blocks; i++)
        list[i] = le32toh(list[i]);
    *sums = list;
    return 0;
}

int slot_each_block(int fd, const struct version_record *record, uint64_t from, uint64_t to,
                    slot_visit *visit, void *context, uint64_t *bad)
{
    uint32_t *sums = NULL;
    char *block = malloc(VERSIONS_BLOCK);
    int result = block ? slot_read_sums(fd, record, &sums) : -ENOMEM;
    *bad = from;
    for (uint64_t at = from / VERSIONS_BLOCK * VERSIONS_BLOCK; result == 0 && at < to;
         at += VERSIONS_BLOCK) {
        uint64_t left = record->length - at;
        size_t size = left < VERSIONS_BLOCK ? (size_t)left : VERSIONS_BLOCK;
        *bad = at;
        result = slot_read(fd, block, size, version_data_at(record->length) + at);
        if (result == 0 && versions_crc(block, size) != sums[at / VERSIONS_BLOCK])
            result = -EUCLEAN;
        if (result == 0 && visit)
            result = visit(context, at, block, size);
    }
    free(sums);
    free(block);
    return result;
}
