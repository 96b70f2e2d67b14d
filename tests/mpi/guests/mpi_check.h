/* mpi_check.h: what the guests that check MPI windows share: their rank, how they count and say
 * what does not hold, and what they ask of a window. */
#include <mpi.h>
#include <stdio.h>

static int rank, ranks;
static _Atomic int wrong;

static inline void check(int holds, const char *what, int line)
{
    if (!holds && wrong++ < 10)
        printf("rank %d, line %d: %s\n", rank, line, what);
}
#define CHECK(condition) check((condition) != 0, #condition, __LINE__)
#define OK(call)         check((call) == MPI_SUCCESS, #call, __LINE__)

/* For a window on storage; each number has a file. */
static inline MPI_Info storage_info(const char *directory, int number)
{
    char path[4096];
    MPI_Info info;
    snprintf(path, sizeof(path), "%s/part%d", directory, number);
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_type", "storage");
    MPI_Info_set(info, "storage_alloc_filename", path);
    return info;
}

static inline void attribute(MPI_Win window, int key, long expected)
{
    void *value = NULL;
    int flag = 0;
    MPI_Win_get_attr(window, key, &value, &flag);
    CHECK(flag);
    long found = !flag                 ? -1
                 : key == MPI_WIN_BASE ? (long)value
                 : key == MPI_WIN_SIZE ? (long)*(MPI_Aint *)value
                                       : *(int *)value;
    CHECK(found == expected);
}

static inline char *part_of(MPI_Win window, int other)
{
    MPI_Aint size;
    int unit;
    char *base = NULL;
    OK(MPI_Win_shared_query(window, other, &size, &unit, &base));
    return base;
}
