/* mpi_storage.c DIRECTORY CASE...: properties of MPI windows on storage, checked on all ranks;
 * prints "rank N: M wrong". ONE_THREAD in the environment: without MPI_THREAD_MULTIPLE. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "storage/written.h"
#include "../mpi_check.h"
#include "onespace/window.h"

static const char *directory;

/* The calls of onespace/window.h, wherever the layer came from. */
#define FIND(name) ((__typeof__(name) *)find(#name))
static void *find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) {
        printf("rank %d: there is no %s\n", rank, name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return found;
}

static char *path_of(const char *name, int number)
{
    static char path[4096];
    if (number < 0)
        snprintf(path, sizeof(path), "%s/%s", directory, name);
    else
        snprintf(path, sizeof(path), "%s/%s%d", directory, name, number);
    return path;
}

/* pairs: "key=value" ..., NULL */
static MPI_Info hints(const char *path, const char *const *pairs)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_type", "storage");
    if (path)
        MPI_Info_set(info, "storage_alloc_filename", (char *)path);
    for (; pairs && *pairs; pairs++) {
        char pair[1200], *value;
        snprintf(pair, sizeof(pair), "%s", *pairs);
        value = strchr(pair, '=');
        *value++ = 0;
        MPI_Info_set(info, pair, value);
    }
    return info;
}
#define PAIRS(...) ((const char *const[]){__VA_ARGS__, NULL})

static int allocate(MPI_Aint size, MPI_Info info, void *base, MPI_Win *window)
{
    int result = MPI_Win_allocate(size, 1, info, MPI_COMM_WORLD, base, window);
    MPI_Info_free(&info);
    return result;
}

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

static long file_size(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? (long)status.st_size : -1;
}

/* Bytes of a file, past the mapping. */
static unsigned char byte_at(const char *path, long offset)
{
    unsigned char byte = 0xee;
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && pread(fd, &byte, 1, offset) == 1);
    close(fd);
    return byte;
}

static char fill_of(int who, int i)
{
    return (char)(who * 37 + i * 11 + 5);
}

/* ---- One file per rank, one file for all ---- */

static void file_per_rank(void)
{
    char *base, *path = path_of("own", rank);
    MPI_Win window;
    OK(allocate(100000, hints(path, NULL), &base, &window));
    CHECK(file_size(path) == 100000);
    for (int i = 0; i < 100000; i++)
        base[i] = fill_of(rank, i);
    OK(MPI_Win_sync(window)); /* outside of any epoch */
    CHECK((char)byte_at(path, 77777) == fill_of(rank, 77777));
    OK(MPI_Win_free(&window));
    OK(allocate(100000, hints(path, NULL), &base, &window)); /* what was there is there */
    for (int i = 0; i < 100000; i += 99)
        CHECK(base[i] == fill_of(rank, i));
    OK(MPI_Win_free(&window));
}

/* Neighbours share pages. */
static void one_file_at_unaligned_offsets(void)
{
    char offset[64], *base, *path = path_of("shared", -1);
    MPI_Win window;
    snprintf(offset, sizeof(offset), "storage_alloc_offset=%d", 13 + rank * 5001);
    OK(allocate(5001, hints(path, PAIRS(offset)), &base, &window));
    for (int i = 0; i < 5001; i++)
        base[i] = fill_of(rank, i);
    OK(MPI_Win_sync(window));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(file_size(path) == 13 + ranks * 5001);
    for (int i = 0; i < ranks; i++) {
        CHECK((char)byte_at(path, 13 + i * 5001) == fill_of(i, 0));
        CHECK((char)byte_at(path, 13 + i * 5001 + 5000) == fill_of(i, 5000));
    }
    OK(MPI_Win_free(&window));
}

/* Listing 1: the same file and the same offset: the ranks' windows are the same bytes. */
static void same_bytes(void)
{
    int *base, k = 100 + rank;
    MPI_Win window;
    MPI_Info info = hints(path_of("same", -1), NULL);
    OK(MPI_Win_allocate(ranks * (int)sizeof(int), sizeof(int), info, MPI_COMM_WORLD, &base,
                        &window));
    MPI_Info_free(&info);
    for (int i = 0; i < ranks; i++) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, i, 0, window));
        OK(MPI_Put(&k, 1, MPI_INT, i, rank, 1, MPI_INT, window));
        OK(MPI_Win_unlock(i, window));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        CHECK(base[i] == 100 + i);
    OK(MPI_Win_free(&window));
}

/* On one node accumulates are atomic, whichever of the ranks' parts they go to. */
static void same_bytes_accumulate(void)
{
    int *base, one = 1;
    MPI_Win window;
    MPI_Info info = hints(path_of("sums", -1), NULL);
    OK(MPI_Win_allocate(sizeof(int), sizeof(int), info, MPI_COMM_WORLD, &base, &window));
    MPI_Info_free(&info);
    for (int i = 0; i < 1000; i++) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window));
        OK(MPI_Accumulate(&one, 1, MPI_INT, rank, 0, 1, MPI_INT, MPI_SUM, window));
        OK(MPI_Win_unlock(rank, window));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(base[0] == ranks * 1000);
    OK(MPI_Win_free(&window));
}

/* As Listing 1 has it: with an offset. */
static void same_bytes_by_their_offset(void)
{
    char *base;
    MPI_Win window;
    OK(allocate(100, hints(path_of("meant", -1), PAIRS("storage_alloc_offset=0")), &base, &window));
    base[rank] = 'm';
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        CHECK(base[i] == 'm');
    OK(MPI_Win_free(&window));
}

static void extends_a_file(void)
{
    char *base, *path = path_of("longer", rank);
    MPI_Win window;
    int fd = open(path, O_CREAT | O_RDWR, 0640);
    CHECK(write(fd, "beginning", 9) == 9);
    close(fd);
    OK(allocate(1000, hints(path, PAIRS("storage_alloc_offset=9")), &base, &window));
    CHECK(base[0] == 0 && base[-1] == 'g');
    memset(base, 'x', 1000);
    OK(MPI_Win_free(&window)); /* flushes */
    CHECK(file_size(path) == 1009);
    CHECK(byte_at(path, 8) == 'g' && byte_at(path, 9) == 'x' && byte_at(path, 1008) == 'x');
}

/* ---- Communication ---- */

static void puts_and_gets(void)
{
    long *base, value, next = (rank + 1) % ranks;
    MPI_Win window;
    MPI_Info info = hints(path_of("rma", rank), NULL);
    OK(MPI_Win_allocate(8 * 4096, 8, info, MPI_COMM_WORLD, &base, &window));
    MPI_Info_free(&info);
    OK(MPI_Win_fence(0, window));
    for (long i = 0; i < 4096; i += 511) {
        value = rank * 100000 + i;
        OK(MPI_Put(&value, 1, MPI_LONG, (int)next, i, 1, MPI_LONG, window));
        OK(MPI_Win_fence(0, window));
    }
    for (long i = 0; i < 4096; i += 511)
        CHECK(base[i] == (rank + ranks - 1) % ranks * 100000 + i);
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_lock_all(0, window));
    OK(MPI_Get(&value, 1, MPI_LONG, (int)next, 511, 1, MPI_LONG, window));
    OK(MPI_Win_flush(next, window));
    CHECK(value == rank * 100000 + 511);
    long one = 1, sum = -1;
    for (int i = 0; i < 500; i++)
        OK(MPI_Fetch_and_op(&one, &sum, MPI_LONG, 0, 1, MPI_SUM, window));
    OK(MPI_Win_unlock_all(window));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(rank || base[1] == ranks * 500);
    OK(MPI_Win_free(&window));
}

static int is_filled(const char *at, size_t size, int who)
{
    for (size_t i = 0; i < size; i++)
        if (at[i] != fill_of(who, (int)i))
            return 0;
    return 1;
}

/* To every rank from every rank, each at its place, then back; by MPI_Win_sync alone it is all in
 * the files. */
static void exchange_much(const char *const *pairs)
{
    enum { SIZE = (3 << 20) + 777, BEGIN = 300 };
    char *base, *data = malloc(SIZE), *back = malloc(SIZE), path[4096];
    MPI_Win window;
    OK(allocate(BEGIN + (MPI_Aint)ranks * SIZE, hints(path_of("much", rank), pairs), &base,
                &window));
    for (int i = 0; i < SIZE; i++)
        data[i] = fill_of(rank, i);
    OK(MPI_Win_lock_all(0, window));
    for (int to = 0; to < ranks; to++)
        OK(MPI_Put(data, SIZE, MPI_CHAR, to, BEGIN + (MPI_Aint)rank * SIZE, SIZE, MPI_CHAR,
                   window));
    OK(MPI_Win_flush_all(window));
    OK(MPI_Win_sync(window));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_sync(window));
    for (int from = 0; from < ranks; from++) {
        CHECK(is_filled(base + BEGIN + (size_t)from * SIZE, SIZE, from));
        OK(MPI_Get(back, SIZE, MPI_CHAR, from, BEGIN + (MPI_Aint)rank * SIZE, SIZE, MPI_CHAR,
                   window));
        OK(MPI_Win_flush(from, window));
        CHECK(memcmp(back, data, SIZE) == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_unlock_all(window));
    OK(MPI_Win_free(&window));
    snprintf(path, sizeof(path), "%s", path_of("much", (rank + 1) % ranks));
    int file = open(path, O_RDONLY);
    CHECK(pread(file, back, SIZE, file_size(path) - (off_t)(ranks - rank) * SIZE) == SIZE);
    CHECK(memcmp(back, data, SIZE) == 0);
    close(file);
    MPI_Barrier(MPI_COMM_WORLD);
    unlink(path);
    free(data);
    free(back);
}

static void large_puts_and_gets(void)
{
    exchange_much(NULL);
    exchange_much(PAIRS("access_style=sequential"));
    exchange_much(PAIRS("access_style=read_once,write_once"));
    exchange_much(PAIRS("storage_alloc_versions=2"));
}

/* MPI_Win_sync covers what this rank put into other ranks' files. */
static void sync_covers_puts(void)
{
    char *base, letter = (char)('a' + rank), path[4096];
    MPI_Win window;
    int next = (rank + 1) % ranks;
    OK(allocate(9000, hints(path_of("puts", rank), NULL), &base, &window));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, window));
    OK(MPI_Put(&letter, 1, MPI_CHAR, next, 5000, 1, MPI_CHAR, window));
    OK(MPI_Win_flush(next, window));
    OK(MPI_Win_sync(window));
    snprintf(path, sizeof(path), "%s", path_of("puts", next));
    CHECK(byte_at(path, 5000) == (unsigned char)letter);
    OK(MPI_Win_unlock(next, window));
    OK(MPI_Win_free(&window));
}

static void attributes(void)
{
    char *base;
    MPI_Win window;
    OK(allocate(777, hints(path_of("attributes", rank), NULL), &base, &window));
    attribute(window, MPI_WIN_BASE, (long)base);
    attribute(window, MPI_WIN_SIZE, 777);
    attribute(window, MPI_WIN_DISP_UNIT, 1);
    attribute(window, MPI_WIN_CREATE_FLAVOR, MPI_WIN_FLAVOR_ALLOCATE);
    attribute(window, MPI_WIN_MODEL, MPI_WIN_UNIFIED);
    OK(MPI_Win_free(&window));
}

static void info_is(MPI_Win window, const char *key, const char *expected)
{
    MPI_Info info;
    int flag = 0;
    char value[MPI_MAX_INFO_VAL + 1] = "";
    OK(MPI_Win_get_info(window, &info));
    MPI_Info_get(info, (char *)key, MPI_MAX_INFO_VAL, value, &flag);
    MPI_Info_free(&info);
    if (!flag || strcmp(value, expected) != 0)
        printf("rank %d: %s is \"%s\", not \"%s\"\n", rank, key, value, expected);
    CHECK(flag && strcmp(value, expected) == 0);
}

static void info_tells_what_is_used(void)
{
    char *base, path[4096], factor[32];
    MPI_Win window;
    long page = sysconf(_SC_PAGESIZE), end = (4096 + 20000 + page - 1) / page * page;
    snprintf(factor, sizeof(factor), "%g", end - 4096 < 40000 ? (double)(end - 4096) / 40000 : 1.0);
    snprintf(path, sizeof(path), "%s", path_of("info", rank));
    OK(allocate(40000,
                hints(path, PAIRS("storage_alloc_offset=4096", "storage_alloc_factor=0.5",
                                  "storage_alloc_order=storage_first", "storage_alloc_unlink=true",
                                  "storage_alloc_discard=true",
                                  "access_style=read_mostly,sequential", "file_perm=416")),
                &base, &window));
    info_is(window, "alloc_type", "storage");
    info_is(window, "storage_alloc_filename", path);
    info_is(window, "storage_alloc_offset", "4096");
    info_is(window, "storage_alloc_factor", factor); /* whole pages: 0.512 with those of 4 KiB */
    info_is(window, "storage_alloc_order", "storage_first");
    info_is(window, "storage_alloc_unlink", "true");
    info_is(window, "storage_alloc_discard", "true");
    info_is(window, "access_style", "read_mostly,sequential");
    info_is(window, "file_perm", "0640");
    OK(MPI_Win_free(&window));
    CHECK(file_size(path) < 0);
}

/* ---- Combined windows ---- */

static void combined(void)
{
    const char *const orders[] = {"memory_first", "storage_first"};
    for (int order = 0; order < 2; order++) {
        char pair[64], path[4096], *base, *got = malloc(50000), *put = malloc(50000);
        MPI_Win window;
        int next = (rank + 1) % ranks;
        snprintf(path, sizeof(path), "%s", path_of(orders[order], rank));
        snprintf(pair, sizeof(pair), "storage_alloc_order=%s", orders[order]);
        OK(allocate(50000, hints(path, PAIRS("storage_alloc_factor=0.4", pair)), &base, &window));
        CHECK(file_size(path) >= 20000 && file_size(path) < 20000 + sysconf(_SC_PAGESIZE));
        for (int i = 0; i < 50000; i++)
            put[i] = fill_of(rank, i);
        OK(MPI_Win_fence(0, window));
        OK(MPI_Put(put, 50000, MPI_CHAR, next, 0, 50000, MPI_CHAR, window));
        OK(MPI_Win_fence(0, window));
        for (int i = 0; i < 50000; i++)
            CHECK(base[i] == fill_of((rank + ranks - 1) % ranks, i));
        OK(MPI_Get(got, 50000, MPI_CHAR, next, 0, 50000, MPI_CHAR, window));
        OK(MPI_Win_fence(0, window));
        CHECK(memcmp(got, put, 50000) == 0);
        OK(MPI_Win_sync(window));
        long stored = file_size(path), begin = order ? 0 : 50000 - stored;
        CHECK((char)byte_at(path, stored - 1) == base[begin + stored - 1]);
        CHECK((char)byte_at(path, 0) == base[begin]);
        OK(MPI_Win_free(&window));
        free(got);
        free(put);
    }
}

static void auto_factor_of_what_fits_is_memory(void)
{
    char *base, *path = path_of("auto", rank);
    MPI_Win window;
    OK(allocate(100000, hints(path, PAIRS("storage_alloc_factor=auto")), &base, &window));
    info_is(window, "storage_alloc_factor", "0");
    memset(base, 7, 100000);
    CHECK(file_size(path) < 0);
    OK(MPI_Win_free(&window));
}

/* ---- Shared windows ---- */

static void shared_contiguous(void)
{
    char *base, path[4096];
    MPI_Win window;
    int next = (rank + 1) % ranks;
    MPI_Info info = hints(path_of("contiguous", -1), PAIRS("storage_alloc_offset=100"));
    snprintf(path, sizeof(path), "%s", path_of("contiguous", -1));
    OK(MPI_Win_allocate_shared(3000 + rank, 1, info, MPI_COMM_WORLD, &base, &window));
    attribute(window, MPI_WIN_CREATE_FLAVOR, MPI_WIN_FLAVOR_SHARED);
    CHECK(part_of(window, rank) == base);
    long before = 0;
    for (int i = 0; i < ranks; i++) {
        CHECK(part_of(window, i) == part_of(window, 0) + before);
        before += 3000 + i;
    }
    CHECK(file_size(path) == 100 + before);
    part_of(window, next)[1500] = (char)('A' + rank);
    OK(MPI_Win_sync(window));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(base[1500] == 'A' + (rank + ranks - 1) % ranks);
    CHECK(byte_at(path, 100 + (base - part_of(window, 0)) + 1500) == (unsigned char)base[1500]);
    OK(MPI_Win_free(&window));
    MPI_Info_set(info, "storage_alloc_filename", path_of("several", rank));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (ranks > 1)
        CHECK(MPI_Win_allocate_shared(3000, 1, info, MPI_COMM_WORLD, &base, &window) !=
              MPI_SUCCESS);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    OK(MPI_Win_allocate_shared(3000, 1, info, MPI_COMM_WORLD, &base, &window));
    part_of(window, next)[2999] = (char)('a' + rank);
    OK(MPI_Win_sync(window));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(byte_at(path_of("several", rank), 3099) == 'a' + (rank + ranks - 1) % ranks);
    OK(MPI_Win_free(&window));
    MPI_Info_free(&info);
}

/* Rank 0 gives all the memory. */
static void shared_of_one_rank(void)
{
    long *base;
    MPI_Win window;
    MPI_Info info = hints(path_of("ofone", -1), NULL);
    OK(MPI_Win_allocate_shared(rank ? 0 : 8L * ranks, 8, info, MPI_COMM_WORLD, &base, &window));
    MPI_Info_free(&info);
    long *all = (long *)part_of(window, MPI_PROC_NULL);
    CHECK(all == (long *)part_of(window, 0));
    all[rank] = rank + 5;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        CHECK(all[i] == i + 5);
    OK(MPI_Win_free(&window));
}

/* ---- onespace/window.h ---- */

static void sync_calls(void)
{
    char *base, *path = path_of("calls", rank);
    MPI_Win window;
    int flag = 0;
    struct onespace_window_request *request = NULL, *second = NULL;
    struct onespace_window_statistics statistics = {.size = sizeof(statistics)};
    OK(allocate(1 << 20, hints(path, NULL), &base, &window));
    memset(base, 1, 1 << 20);
    OK(FIND(onespace_window_sync_range)(window, 5, 100000));
    OK(FIND(onespace_window_sync_all)(window));
    base[70000] = 9;
    OK(FIND(onespace_window_sync_start)(window, 65536, 65536, &request));
    OK(FIND(onespace_window_sync_start)(window, 0, 65536, &second));
    OK(FIND(onespace_window_wait)(&request));
    CHECK(!request);
    while (!flag)
        OK(FIND(onespace_window_test)(&second, &flag));
    CHECK(!second && byte_at(path, 70000) == 9);
    OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    CHECK(FIND(onespace_window_sync_range)(window, 5, 1 << 20) != MPI_SUCCESS);
    OK(MPI_Win_sync(window));
    OK(FIND(onespace_window_statistics)(window, &statistics));
    CHECK(statistics.sync.calls == 2 && statistics.sync_range.calls == 1);
    CHECK(statistics.sync_start.calls == 2 && statistics.sync_start.bytes == 131072);
    CHECK(statistics.storage_bytes == 1 << 20 && statistics.sync.failures == 0);
    CHECK(statistics.is_intra_node == 1);
    OK(FIND(onespace_window_sync_start)(window, 0, 4096, &request)); /* left to MPI_Win_free */
    OK(MPI_Win_free(&window));
}

/* After main() made it so. */
static void parts_are_out_of_reach(void)
{
    char *base;
    MPI_Win window;
    struct onespace_window_statistics statistics = {.size = sizeof(statistics)};
    OK(allocate(5000, hints(path_of("inter-node", rank), NULL), &base, &window));
    OK(FIND(onespace_window_statistics)(window, &statistics));
    CHECK(statistics.is_intra_node == 0);
    OK(MPI_Win_sync(window)); /* outside of any epoch, which MPICH's own refuses */
    OK(FIND(onespace_window_sync_all)(window));
    OK(MPI_Win_free(&window));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Info info = hints(path_of("farshared", -1), NULL);
    CHECK(class_of(MPI_Win_allocate_shared(5000, 1, info, MPI_COMM_WORLD, &base, &window)) ==
          MPI_ERR_RMA_SHARED);
    MPI_Info_free(&info);
    CHECK(file_size(path_of("farshared", -1)) < 0);
}

/* As containers are that hide their processes: nobody may open this process's descriptors. */
static void hide(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    CHECK(syscall(SYS_capget, &header, sets) == 0);
    sets[0].effective &= ~(1u << CAP_SYS_PTRACE);
    sets[0].permitted &= ~(1u << CAP_SYS_PTRACE);
    CHECK(syscall(SYS_capset, &header, sets) == 0 && prctl(PR_SET_DUMPABLE, 0) == 0);
}

/* ---- Bytes written ---- */

/* 132 stores of 4 KiB into 512 MiB; the file system adds its own bookkeeping. */
static void scattered_stores_write_little(void)
{
    char *base, *path = path_of("scattered", rank);
    MPI_Win window;
    MPI_Aint size = (512L << 20) / ranks, stores = 132 / ranks;
    OK(allocate(size, hints(path, PAIRS("storage_alloc_unlink=true")), &base, &window));
    sync();
    MPI_Barrier(MPI_COMM_WORLD);
    long before = written_bytes();
    for (MPI_Aint i = 0; i < stores; i++)
        memset(base + size / stores * i / 4096 * 4096, 3, 4096);
    OK(MPI_Win_sync(window));
    long bytes = written_bytes() - before;
    if (bytes > (1 << 20))
        printf("rank %d: %ld bytes written\n", rank, bytes);
    CHECK(before >= 0 && bytes >= stores * 4096 && bytes <= (1 << 20));
    OK(MPI_Win_free(&window));
}

/* ---- Errors ---- */

/* Each value is refused on all ranks, whichever rank has it. */
static void bad_hints(void)
{
    static const char *const bad[] = {
        "alloc_type=disk",
        "storage_alloc_offset=-1",
        "storage_alloc_offset=4k",
        "storage_alloc_offset=",
        "storage_alloc_factor=1.5",
        "storage_alloc_factor=half",
        "storage_alloc_factor=nan",
        "storage_alloc_order=first",
        "storage_alloc_unlink=yes",
        "storage_alloc_discard=1",
        "access_style=fast",
        "access_style=read_once,",
        "file_perm=rw",
        "file_perm=09",
        "file_perm=640",
        "striping_factor=0",
        "striping_unit=1000",
        "storage_alloc_versions=-2",
        "access_style=random,sequential",
        "storage_alloc_offset=9223372036854775807",
    };
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char *base = NULL;
        MPI_Win window = MPI_WIN_NULL;
        int guilty = (int)i % ranks == rank, value = *bad[i] ? (int)strlen(bad[i]) : 0;
        if (value && bad[i][value - 1] == '=' && sizeof(MPI_Win) > 4)
            continue; /* Open MPI refuses empty values itself */
        if (bad[i][value - 1] == '=')
            continue;
        int code = allocate(4096, hints(path_of("bad", rank), guilty ? PAIRS(bad[i]) : NULL), &base,
                            &window);
        if (code == MPI_SUCCESS)
            printf("rank %d: %s is allowed\n", rank, bad[i]);
        CHECK(class_of(code) == MPI_ERR_INFO_VALUE && window == MPI_WIN_NULL);
    }
    char *base;
    MPI_Win window;
    CHECK(class_of(allocate(10, hints(NULL, NULL), &base, &window)) == MPI_ERR_INFO_VALUE);
    CHECK(file_size(path_of("bad", rank)) < 0);
}

static void good_hints(void)
{
    static const char *const good[] = {
        "alloc_type=storage",
        "storage_alloc_offset=0",
        "storage_alloc_offset=12345",
        "storage_alloc_factor=0",
        "storage_alloc_factor=1",
        "storage_alloc_factor=.25",
        "storage_alloc_factor=auto",
        "storage_alloc_order=memory_first",
        "storage_alloc_order=storage_first",
        "storage_alloc_unlink=false",
        "storage_alloc_discard=true",
        "access_style=read_once,write_once,read_mostly,write_mostly",
        "access_style=sequential",
        "access_style=reverse_sequential",
        "access_style=random",
        "file_perm=0600",
        "file_perm=384",
        "striping_factor=4",
        "striping_unit=1048576",
        "storage_alloc_versions=0",
        "something_else=whatever",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char *base;
        MPI_Win window;
        OK(allocate(10000, hints(path_of("good", rank), PAIRS(good[i])), &base, &window));
        memset(base, (int)i, 10000);
        OK(MPI_Win_sync(window));
        OK(MPI_Win_free(&window));
    }
}

static void memory_unless_storage_is_asked_for(void)
{
    char *base, *path = path_of("none", rank);
    MPI_Win window;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "storage_alloc_filename", path);
    OK(MPI_Win_allocate(100, 1, info, MPI_COMM_WORLD, &base, &window));
    OK(MPI_Win_free(&window));
    MPI_Info_set(info, "alloc_type", "memory");
    OK(MPI_Win_allocate(100, 1, info, MPI_COMM_WORLD, &base, &window));
    OK(MPI_Win_free(&window));
    MPI_Info_free(&info);
    CHECK(file_size(path) < 0);
}

/* The last rank's file cannot be: all fail, nobody hangs, and nothing is left. */
static void one_rank_failing_fails_all(void)
{
    char *base, path[4096];
    MPI_Win window;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    snprintf(path, sizeof(path), "%s", path_of(rank == ranks - 1 ? "nofolder/x" : "left", rank));
    int code = allocate(4096, hints(path, NULL), &base, &window);
    CHECK(class_of(code) == MPI_ERR_NO_SUCH_FILE);
    CHECK(file_size(path) < 0);
    OK(allocate(4096, hints(path_of("left", rank), NULL), &base, &window));
    OK(MPI_Win_free(&window));
}

/* The directory is a small file system. */
static void full_disk(void)
{
    char *base, *path = path_of("full", rank);
    MPI_Win window;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(allocate(1L << 30, hints(path, NULL), &base, &window)) == MPI_ERR_NO_SPACE);
    CHECK(file_size(path) < 0);
    OK(allocate(1 << 20, hints(path, NULL), &base, &window));
    memset(base, 1, 1 << 20);
    OK(MPI_Win_sync(window));
    OK(MPI_Win_free(&window));
    CHECK(class_of(allocate(1L << 30, hints(path, NULL), &base, &window)) == MPI_ERR_NO_SPACE);
    CHECK(file_size(path) == 1 << 20); /* as it was */
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(unlink(path) == 0);
}

static void in_use_is_refused(void)
{
    char *base, path[4096];
    MPI_Win window, second;
    snprintf(path, sizeof(path), "%s", path_of("busy", -1));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(allocate(4096, hints(path, NULL), &base, &window));
    CHECK(class_of(allocate(1, hints(path, PAIRS("storage_alloc_offset=4095")), &base, &second)) ==
          MPI_ERR_FILE_IN_USE);
    OK(allocate(1, hints(path, PAIRS("storage_alloc_offset=4096")), &base, &second));
    OK(MPI_Win_free(&second));
    OK(MPI_Win_free(&window));
    OK(allocate(1, hints(path, NULL), &base, &second));
    OK(MPI_Win_free(&second));
}

/* For a test that starts another job meanwhile. */
static void holds_until_told(void)
{
    char *base, path[4096];
    MPI_Win window;
    snprintf(path, sizeof(path), "%s", path_of("go", -1));
    OK(allocate(4096, hints(path_of("held", -1), NULL), &base, &window));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("holding\n"), fflush(stdout);
    for (int i = 0; i < 3000 && file_size(path) < 0; i++)
        usleep(10000);
    OK(MPI_Win_free(&window));
}

static void refused_while_held(void)
{
    char *base;
    MPI_Win window;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(allocate(4096, hints(path_of("held", -1), NULL), &base, &window)) ==
          MPI_ERR_FILE_IN_USE);
}

static int errors_handled;

static void count_error(MPI_Win *window, int *code, ...)
{
    CHECK(*window != MPI_WIN_NULL && class_of(*code) == MPI_ERR_IO);
    errors_handled++;
}

/* The last rank's file is cut while the window lives. */
static void truncation_is_an_error_at_sync(void)
{
    char *base, *path = path_of("cut", rank);
    MPI_Win window;
    long page = sysconf(_SC_PAGESIZE);
    OK(allocate(16 * page, hints(path, NULL), &base, &window));
    memset(base, 1, 16 * (size_t)page);
    OK(MPI_Win_sync(window));
    OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    MPI_Barrier(MPI_COMM_WORLD);
    int last = ranks - 1;
    if (rank == last)
        CHECK(truncate(path, page) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    char value = 5; /* intra-node or not, a store there ends nobody */
    OK(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, window));
    OK(MPI_Put(&value, 1, MPI_CHAR, last, 9 * page + rank, 1, MPI_CHAR, window));
    OK(MPI_Win_unlock(last, window));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == last) {
        base[12 * page] = 1;
        CHECK(class_of(MPI_Win_sync(window)) == MPI_ERR_IO);
        CHECK(truncate(path, 16 * page) == 0); /* it stays failed */
        CHECK(class_of(MPI_Win_sync(window)) == MPI_ERR_IO);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(class_of(FIND(onespace_window_sync_all)(window)) == MPI_ERR_IO); /* on every rank */
    MPI_Errhandler handler;
    OK(MPI_Win_create_errhandler(count_error, &handler));
    OK(MPI_Win_set_errhandler(window, handler));
    errors_handled = 0;
    CHECK(class_of(MPI_Win_free(&window)) == MPI_ERR_IO); /* on every rank, too */
    CHECK(errors_handled == 1);
    OK(MPI_Errhandler_free(&handler));
}

static void unlink_removes(void)
{
    char *base, path[4096];
    MPI_Win window;
    snprintf(path, sizeof(path), "%s", path_of("temporary", -1));
    OK(allocate(4096, hints(path, PAIRS("storage_alloc_unlink=true")), &base, &window));
    CHECK(file_size(path) == 4096);
    base[rank] = 1;
    OK(MPI_Win_free(&window));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(file_size(path) < 0);
}

/* A relative name stays that of the same file when the current directory changes. */
static void unlink_removes_after_chdir(void)
{
    char *base, name[64], before[4096];
    MPI_Win window;
    CHECK(getcwd(before, sizeof(before)) && chdir(directory) == 0);
    snprintf(name, sizeof(name), "relative%d", rank);
    OK(allocate(4096, hints(name, PAIRS("storage_alloc_unlink=true")), &base, &window));
    CHECK(file_size(name) == 4096);
    CHECK(chdir(before) == 0);
    OK(MPI_Win_free(&window));
    CHECK(file_size(path_of(name, -1)) == -1);
}

/* Flushing would fail, and is not tried. */
static void discard_flushes_nothing(void)
{
    char *base, *path = path_of("discard", rank);
    MPI_Win window;
    OK(allocate(8192, hints(path, PAIRS("storage_alloc_discard=true")), &base, &window));
    OK(MPI_Win_sync(window));
    CHECK(truncate(path, 4096) == 0);
    OK(MPI_Win_free(&window));
    CHECK(file_size(path) == 4096);
}

static void permissions(void)
{
    char *base, path[4096];
    MPI_Win window;
    struct stat status;
    snprintf(path, sizeof(path), "%s", path_of("perm", rank));
    OK(allocate(10, hints(path, PAIRS("file_perm=0644")), &base, &window));
    CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0644);
    OK(MPI_Win_free(&window));
    OK(allocate(10, hints(path, PAIRS("file_perm=0600")), &base, &window));
    CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0644); /* it existed */
    info_is(window, "file_perm", "0644");
    OK(MPI_Win_free(&window));
}

static void zero_sizes(void)
{
    char *base, value = 3;
    MPI_Win window;
    OK(allocate(rank % 2 ? 0 : 100, hints(path_of("zero", rank), NULL), &base, &window));
    OK(MPI_Win_fence(0, window));
    OK(MPI_Put(&value, 1, MPI_CHAR, 0, rank, 1, MPI_CHAR, window));
    OK(MPI_Win_fence(0, window));
    CHECK(rank || base[ranks - 1] == 3);
    OK(MPI_Win_sync(window));
    OK(MPI_Win_free(&window));
}

static void left_at_finalize(void)
{
    char *base;
    MPI_Win window;
    OK(allocate(4096, hints(path_of("leftover", rank), PAIRS("storage_alloc_unlink=true")), &base,
                &window));
    base[0] = 1;
}

/* DIRECTORY is a block device. */
static void block_device(void)
{
    char offset[64], *base;
    MPI_Win window;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    snprintf(offset, sizeof(offset), "storage_alloc_offset=%d", rank * 70000);
    OK(allocate(70000, hints(directory, PAIRS(offset, "storage_alloc_unlink=true")), &base,
                &window));
    memset(base, 'a' + rank, 70000);
    OK(MPI_Win_sync(window));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        CHECK(byte_at(directory, i * 70000 + 69999) == 'a' + i);
    OK(MPI_Win_free(&window));
    CHECK(access(directory, F_OK) == 0);
    CHECK(class_of(allocate(1L << 40, hints(directory, NULL), &base, &window)) == MPI_ERR_NO_SPACE);
}

/* ---- Many ---- */

static void *use_a_window(void *argument)
{
    MPI_Comm comm = *(MPI_Comm *)argument;
    char name[64], *base;
    for (int round = 0; round < 5; round++) {
        MPI_Win window;
        snprintf(name, sizeof(name), "thread%lx-", (unsigned long)(uintptr_t)argument & 0xfff);
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s%d", directory, name, rank);
        MPI_Info info = hints(path, NULL);
        OK(MPI_Win_allocate(20000, 1, info, comm, &base, &window));
        MPI_Info_free(&info);
        char value = (char)(rank + 1);
        OK(MPI_Win_lock_all(0, window));
        OK(MPI_Put(&value, 1, MPI_CHAR, (rank + 1) % ranks, round, 1, MPI_CHAR, window));
        OK(MPI_Win_flush_all(window));
        OK(MPI_Win_sync(window));
        OK(MPI_Win_unlock_all(window));
        MPI_Barrier(comm);
        CHECK(base[round] == (rank + ranks - 1) % ranks + 1);
        OK(MPI_Win_free(&window));
    }
    return NULL;
}

static void threads(void)
{
    MPI_Comm comms[3];
    pthread_t all[3];
    for (int i = 0; i < 3; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < 3; i++)
        pthread_create(&all[i], NULL, use_a_window, &comms[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(all[i], NULL);
    for (int i = 0; i < 3; i++)
        MPI_Comm_free(&comms[i]);
}

#include "mpi_storage_delayed.h"
#include "mpi_storage_memory.h"
#include "mpi_storage_intra_node.h"
#include "mpi_storage_mixed.h"

/* ---- All ---- */

static const struct {
    const char *name;
    void (*function)(void);
} cases[] = {
#define CASE(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }
    CASE(file_per_rank),
    CASE(one_file_at_unaligned_offsets),
    CASE(same_bytes),
    CASE(same_bytes_accumulate),
    CASE(same_bytes_by_their_offset),
    CASE(extends_a_file),
    CASE(puts_and_gets),
    CASE(large_puts_and_gets),
    CASE(sync_covers_puts),
    CASE(attributes),
    CASE(info_tells_what_is_used),
    CASE(combined),
    CASE(auto_factor_of_what_fits_is_memory),
    CASE(shared_contiguous),
    CASE(shared_of_one_rank),
    CASE(sync_calls),
    CASE(parts_are_out_of_reach),
    CASE(scattered_stores_write_little),
    CASE(bad_hints),
    CASE(good_hints),
    CASE(memory_unless_storage_is_asked_for),
    CASE(one_rank_failing_fails_all),
    CASE(full_disk),
    CASE(in_use_is_refused),
    CASE(holds_until_told),
    CASE(refused_while_held),
    CASE(truncation_is_an_error_at_sync),
    CASE(unlink_removes),
    CASE(unlink_removes_after_chdir),
    CASE(discard_flushes_nothing),
    CASE(permissions),
    CASE(zero_sizes),
    CASE(left_at_finalize),
    CASE(block_device),
    CASE(threads),
    DELAYED_CASES MEMORY_CASES INTRA_NODE_CASES MIXED_CASES};

int main(int argc, char **argv)
{
    int provided, level = getenv("ONE_THREAD") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE;
    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 2 && (strcmp(argv[2], "parts_are_out_of_reach") == 0 ||
                     (strcmp(argv[2], "one_part_is_out_of_reach") == 0 && rank == 1)))
        hide();
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    directory = argv[1];
    for (int i = 2; i < argc; i++) {
        size_t found = 0, count = sizeof(cases) / sizeof(cases[0]);
        while (found < count && strcmp(cases[found].name, argv[i]) != 0)
            found++;
        CHECK(found < count);
        if (found < count)
            cases[found].function();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    printf("rank %d: %d wrong\n", rank, wrong);
    fflush(stdout); /* MPI_Finalize may hang (docs/storage.md) */
    MPI_Finalize();
    return wrong != 0;
}
