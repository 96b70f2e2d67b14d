/* tests/power/synchronise.c: stores into a region of a file and makes it durable, repeatedly.
 *
 *   synchronise FILE ROUNDS CONTROL stores|copies|direct|without-flush
 *
 * stores: by stores; copies: every other round by storage_region_store of the whole region;
 * direct: likewise with direct I/O, the region being written once; without-flush: stores
 * without a flush.
 *
 * In round R some pages get the number R at their beginning and end, always the one that is R
 * modulo their count; then the region is flushed, and blockdisk's CONTROL is told `synced R`. After
 * a power loss the file may hold a mixture, but no page may be older than the last round that was
 * flushed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/region/region.h"

/* The region is not a multiple of pages anywhere. */
enum { PAGE = 4096, PAGES = 1088, OFFSET = 1000 };

static int is_stored(unsigned page, unsigned round)
{
    return page == round % PAGES || (page * 2654435761u + round * 40503u) >> 4 & 1;
}

static void store(char *base, unsigned round)
{
    for (unsigned page = 0; page < PAGES; page++) {
        if (!is_stored(page, round))
            continue;
        memcpy(base + page * PAGE, &round, sizeof(round));
        memcpy(base + (page + 1) * PAGE - sizeof(round), &round, sizeof(round));
    }
}

static int copy(struct storage_region *region, unsigned round)
{
    char *data = malloc(region->length);
    if (!data)
        return -ENOMEM;
    memcpy(data, region->base, region->length);
    store(data, round);
    storage_region_store(region, region->file.fd, 0, data, region->length);
    free(data);
    return 0;
}

static int tell(const char *control, unsigned round)
{
    char text[64];
    int length = snprintf(text, sizeof(text), "mark synced %u", round);
    int fd = open(control, O_WRONLY | O_CLOEXEC);
    int result = fd >= 0 && write(fd, text, (size_t)length) == length ? 0 : -EIO;
    if (fd >= 0)
        close(fd);
    return result;
}

static int run(struct storage_region *region, unsigned rounds, const char *control, const char *how,
               struct storage_error *error)
{
    int result = 0, copies = strcmp(how, "copies") == 0 || strcmp(how, "direct") == 0;
    for (unsigned round = 1; result == 0 && round <= rounds; round++) {
        if (copies && round % 2)
            result = copy(region, round);
        else
            store(region->base, round);
        if (result == 0 && strcmp(how, "without-flush") != 0)
            result = storage_region_flush(region, region->file.fd,
                                          (struct storage_range){0, region->length}, error);
        if (result == 0)
            result = tell(control, round);
    }
    return result;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    struct storage_region region = {.file.fd = -1};
    struct storage_error error = {""};
    struct storage_hints hints = {.is_storage = 1, .filename = argv[1], .factor = 1, .perm = 0600};
    struct storage_range range = {OFFSET, PAGES * PAGE};
    unsigned style = strcmp(argv[4], "direct") == 0 ? STORAGE_WRITE_ONCE : 0;
    int result = storage_file_open(&region.file, &hints, &error);
    if (result == 0)
        result = storage_file_reserve(&region.file, range, &error);
    if (result == 0)
        result = storage_region_map(&region, range.offset, range.length, NULL, style, &error);
    if (result == 0)
        result = run(&region, (unsigned)atoi(argv[2]), argv[3], argv[4], &error);
    if (result != 0)
        fprintf(stderr, "synchronise: %s: %s\n", strerror(-result), error.text);
    storage_region_unmap(&region);
    storage_file_close(&region.file);
    return result != 0;
}
