/* bench/strided/array.c: creates and attaches the array: at one address, in POSIX shared memory, or
 * by XPMEM. The page size is verified with the kernel, not assumed. */
#include "array.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "../lib/workers.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/* As in the module's xpmem.h. */
struct xpmem_addr {
    int64_t apid;
    off_t offset;
};
enum { XPMEM_RDWR = 2, XPMEM_PERMIT_MODE = 1 };

enum array_way array_way_of(const char *name)
{
    static const char *const names[ARRAY_WAYS] = {"threads", "tasks", "processes", "xpmem"};
    int way = 0;
    while (way < ARRAY_WAYS && strcmp(name, names[way]) != 0)
        way++;
    return (enum array_way)way;
}

/* Maps `size` bytes at a multiple of 2 MiB; fd -1: private anonymous memory. */
static int *map_aligned(const struct array *array, int fd)
{
    char *room = mmap(NULL, array->size + ARRAY_HUGE, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        worker_fail("no room for the array", errno);
    room += -(uintptr_t)room % ARRAY_HUGE;
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *memory = mmap(room, array->size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
    if (memory == MAP_FAILED)
        worker_fail("the array cannot be mapped", errno);
    madvise(memory, array->size, array->page == ARRAY_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return memory;
}

static int open_shared(const struct array *array, int flags)
{
    int fd = shm_open(array->name, O_RDWR | flags, 0600);
    if (fd < 0)
        worker_fail(array->name, errno);
    return fd;
}

static int *map_shared(const struct array *array)
{
    int fd = open_shared(array, O_CREAT | O_EXCL);
    if (ftruncate(fd, (off_t)array->size) != 0)
        worker_fail("the size of the shared memory", errno);
    int *memory = map_aligned(array, fd);
    close(fd);
    return memory;
}

/* Bytes of the mapping at `memory` that are mapped by 2 MiB entries. */
static size_t in_huge_pages(const int *memory)
{
    char line[512];
    int inside = 0;
    size_t sum = 0, kib;
    FILE *file = fopen("/proc/thread-self/smaps", "r");
    while (file && fgets(line, sizeof(line), file)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            inside = start <= (uintptr_t)memory && (uintptr_t)memory < end;
        else if (inside && (sscanf(line, "AnonHugePages: %zu", &kib) == 1 ||
                            sscanf(line, "ShmemPmdMapped: %zu", &kib) == 1))
            sum += kib * 1024;
    }
    if (file)
        fclose(file);
    return sum;
}

static void fill(const struct array *array)
{
    for (size_t i = 0; i < array->size / sizeof(int); i++)
        array->address[i] = (int)i;
}

/* Unless the administrator enabled more, shared memory gets huge pages only by collapsing. */
static void make_huge(struct array *array)
{
    if (array->way == ARRAY_PROCESSES) {
        madvise(array->address, array->size, MADV_COLLAPSE);
        fill(array);
    }
    size_t huge = in_huge_pages(array->address);
    if (huge < array->size)
        snprintf(array->missing, sizeof(array->missing),
                 "only %zu of %zu MiB are in pages of 2 MiB: wants free memory, Linux 6.1, and not "
                 "\"never\" in /sys/kernel/mm/transparent_hugepage/enabled",
                 huge >> 20, array->size >> 20);
}

static void *xpmem_function(const char *name)
{
    void *library = dlopen("libxpmem.so.0", RTLD_NOW);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function)
        worker_fail(dlerror(), ENOENT);
    return function;
}

static void make_segment(struct array *array)
{
    int64_t (*make)(void *, size_t, int, void *);
    if (access("/dev/xpmem", R_OK | W_OK) != 0) {
        snprintf(array->missing, sizeof(array->missing), "no /dev/xpmem: %s", strerror(errno));
        return;
    }
    *(void **)&make = xpmem_function("xpmem_make");
    array->segment = make(array->address, array->size, XPMEM_PERMIT_MODE, (void *)(uintptr_t)0600);
    if (array->segment <= 0)
        worker_fail("xpmem_make", errno);
}

static volatile int *attach_segment(const struct array *array)
{
    int64_t (*get)(int64_t, int, int, void *);
    void *(*attach)(struct xpmem_addr, size_t, void *);
    *(void **)&get = xpmem_function("xpmem_get");
    *(void **)&attach = xpmem_function("xpmem_attach");
    struct xpmem_addr address = {
        .apid = get(array->segment, XPMEM_RDWR, XPMEM_PERMIT_MODE, (void *)(uintptr_t)0600)};
    if (address.apid <= 0)
        worker_fail("xpmem_get", errno);
    void *memory = attach(address, array->size, NULL);
    if (memory == MAP_FAILED)
        worker_fail("xpmem_attach", errno);
    return memory;
}

void array_make(struct array *array)
{
    array->address = array->way == ARRAY_PROCESSES ? map_shared(array) : map_aligned(array, -1);
    fill(array);
    if (array->page == ARRAY_HUGE)
        make_huge(array);
    if (array->way == ARRAY_XPMEM && !*array->missing)
        make_segment(array);
}

volatile int *array_find(const struct array *array)
{
    if (array->way == ARRAY_XPMEM)
        return attach_segment(array);
    if (array->way != ARRAY_PROCESSES)
        return array->address;
    int fd = open_shared(array, 0);
    int *memory = map_aligned(array, fd);
    close(fd);
    return memory;
}

void array_end(const struct array *array)
{
    if (array->way == ARRAY_PROCESSES)
        shm_unlink(array->name);
}
