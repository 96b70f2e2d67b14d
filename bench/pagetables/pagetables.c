/* bench/pagetables/pagetables.c: how large the page tables of N workers are.
 *
 * usage: pagetables threads|tasks|processes SHARED_BYTES COUNT
 *
 * The workers write to every page of one shared region of SHARED_BYTES (0: none) and wait. Then
 * prints "tables COUNT BYTES", VmPTE in /proc/PID/status, and "entries COUNT NUMBER", the mapped
 * pages (Rss in /proc/PID/smaps_rollup). Both are summed over the address spaces: one for all
 * threads or tasks, one per process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/workers.h"

enum { PAGE = 4096 };

struct block {
    struct workers workers;
    volatile char *region;
    size_t size;
};

void worker_run(int number, struct workers *workers)
{
    const struct block *block = (const struct block *)workers;
    (void)number;
    for (size_t at = 0; at < block->size; at += PAGE)
        block->region[at] = 1;
    workers_barrier(workers); /* everything is mapped */
    workers_barrier(workers); /* and counted */
}

/* The value of a line "FIELD: VALUE kB", in KiB. */
static long read_kib(int pid, const char *file, const char *field)
{
    char path[64], line[256];
    long value = -1;
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    FILE *stream = fopen(path, "r");
    if (!stream)
        worker_fail(path, errno);
    while (value < 0 && fgets(line, sizeof(line), stream))
        if (strncmp(line, field, strlen(field)) == 0)
            value = atol(line + strlen(field));
    fclose(stream);
    if (value < 0)
        worker_fail(path, ENODATA);
    return value;
}

static void count_up(int pid, long *tables_kib, long *mapped_kib)
{
    *tables_kib += read_kib(pid, "status", "VmPTE:");
    *mapped_kib += read_kib(pid, "smaps_rollup", "Rss:");
}

/* Shared mappings are not merged into huge pages unless the administrator enables it globally. */
static volatile char *map_region(size_t size)
{
    void *region = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED)
        worker_fail("no memory for the shared region", errno);
    madvise(region, size, MADV_NOHUGEPAGE);
    return region;
}

int main(int argc, char **argv)
{
    workers_enter(argc, argv);
    enum worker_kind kind = argc == 4 ? worker_kind_by_name(argv[1]) : WORKER_KINDS;
    int count = argc == 4 ? atoi(argv[3]) : 0;
    if (kind == WORKER_KINDS || count < 1 || count > WORKERS_MAX) {
        fprintf(stderr, "usage: pagetables threads|tasks|processes SHARED_BYTES COUNT\n");
        return 2;
    }
    struct block *block = workers_allocate(sizeof(*block));
    block->size = strtoul(argv[2], NULL, 10);
    block->region = block->size ? map_region(block->size) : NULL;
    workers_start(kind, count, &block->workers);
    workers_barrier(&block->workers);
    long tables_kib = 0, mapped_kib = 0;
    count_up(getpid(), &tables_kib, &mapped_kib);
    for (int i = 0; kind == WORKER_PROCESSES && i < count; i++)
        count_up(worker_pid(i), &tables_kib, &mapped_kib);
    workers_barrier(&block->workers);
    workers_join();
    printf("tables %d %ld\nentries %d %ld\n", count, tables_kib * 1024, count,
           mapped_kib * 1024 / PAGE);
    return 0;
}
