/* storage_window.h: what the cases of mpi_storage.c share: windows on storage, and their files. */
#ifndef ONESPACE_TESTS_MPI_STORAGE_GUESTS_STORAGE_WINDOW_H
#define ONESPACE_TESTS_MPI_STORAGE_GUESTS_STORAGE_WINDOW_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mpi/guests/mpi_check.h"
#include "onespace/window.h"

/* The calls of onespace/window.h, of a layer that is linked or preloaded. */
#define FIND(name) ((__typeof__(name) *)find(#name))
static void *find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) {
        printf("rank %d: there is no %s\n", rank, name);
        MPI_Abort(world, 1);
    }
    return found;
}

/* ---- Windows ---- */

static int allocate_units(MPI_Aint size, int unit, MPI_Info info, void *base, MPI_Win *window)
{
    int result = MPI_Win_allocate(size, unit, info, world, base, window);
    info_free(info);
    return result;
}

static int allocate(MPI_Aint size, MPI_Info info, void *base, MPI_Win *window)
{
    return allocate_units(size, 1, info, base, window);
}

static int allocate_shared(MPI_Aint size, int unit, MPI_Info info, void *base, MPI_Win *window)
{
    int result = MPI_Win_allocate_shared(size, unit, info, world, base, window);
    info_free(info);
    return result;
}

static MPI_Win open_units(MPI_Aint size, int unit, MPI_Info info, void *base)
{
    MPI_Win window;
    OK(allocate_units(size, unit, info, base, &window));
    return window;
}

static MPI_Win open_window(MPI_Aint size, const char *path, const char *const *pairs, void *base)
{
    return open_units(size, 1, hints(path, pairs), base);
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

static struct onespace_window_statistics statistics_of(MPI_Win window)
{
    struct onespace_window_statistics found = {.size = sizeof(found)};
    OK(FIND(onespace_window_statistics)(window, &found));
    return found;
}

/* How many bytes MPI_Win_sync makes durable. */
static long synchronised(MPI_Win window)
{
    uint64_t before = statistics_of(window).sync.bytes;
    OK(MPI_Win_sync(window));
    return (long)(statistics_of(window).sync.bytes - before);
}

static void put_char(char value, int to, MPI_Aint at, MPI_Win window)
{
    OK(MPI_Put(&value, 1, MPI_CHAR, to, at, 1, MPI_CHAR, window));
    OK(MPI_Win_flush(to, window));
}

static int ranks_of_node(void)
{
    MPI_Comm node;
    int count;
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &count);
    MPI_Comm_free(&node);
    return count;
}

/* ---- Files ---- */

/* -1: there is none. */
static long file_size(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? (long)status.st_size : -1;
}

/* A byte of a file, past the mapping. */
static char byte_at(const char *path, long offset)
{
    char byte = (char)0xee;
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && pread(fd, &byte, 1, offset) == 1);
    close(fd);
    return byte;
}

static char fill_of(int part, int i)
{
    return (char)(part * 37 + i * 11 + 5);
}

static void fill(char *at, int size, int part)
{
    for (int i = 0; i < size; i++)
        at[i] = fill_of(part, i);
}

static int is_filled(const char *at, int size, int part)
{
    for (int i = 0; i < size; i++)
        if (at[i] != fill_of(part, i))
            return 0;
    return 1;
}

#endif
