/* mpi_versions: a window with versions: prints which one it finds, then commits.
 *
 *   mpi_versions FILE KIND COMMITS [NAME=VALUE]...
 *
 * KIND: shared, one file, each rank's part behind the other's; separate, a file per rank; combined,
 * half of each part in memory, a file per rank; mixed, odd ranks in memory, which no version has,
 * and a file for each of the others; mixed-odd, the other way round; mixed-shared, odd ranks in
 * memory and one file for the others. NAME=VALUE are further hints. Each version fills a
 * byte with a function of version, rank-independent place and window. Prints "rank R: found V, made
 * W". In the environment:
 *
 *   DIE=N            after the commits rank 1 kills itself while the others store
 *   DIE_AFTER_MS=N   rank 1 is killed N ms (0: never) after it has its window; each rank
 *                    prints "rank R: found V", and rank 0 "rank R: committed W" for each commit
 *   PUT=BYTES        the window has so many bytes, and all of it is put and got, by all ranks in
 *                    turn, in pieces of up to 20 MiB, rather than stored and loaded */
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "mpi/guests/mpi_check.h"
#include "onespace/window.h"

#pragma weak onespace_window_commit
#pragma weak onespace_window_version

enum { TOTAL = 12 * 50021 }; /* bytes of the whole window: not whole pages per rank */

static void fail(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(class_of(code), text, &length);
    printf("rank %d: %s: %s\n", rank, what, text);
    fflush(stdout);
    MPI_Finalize();
    exit(1);
}

/* In memory of MPI, not on storage. */
static int is_in_memory(const char *kind, int part)
{
    return strncmp(kind, "mixed", 5) == 0 && (part % 2 == 1) != (strcmp(kind, "mixed-odd") == 0);
}

static MPI_Info make_hints(const char *file, const char *kind, size_t first, char **pairs)
{
    if (is_in_memory(kind, rank))
        return MPI_INFO_NULL;
    MPI_Info info =
        part_hints(file, strstr(kind, "shared") != NULL, first, PAIRS("storage_alloc_versions=1"));
    if (strcmp(kind, "combined") == 0)
        MPI_Info_set(info, "storage_alloc_factor", "0.5");
    info_add(info, (const char *const *)pairs);
    return info;
}

/* Every third byte changes in a version. */
static unsigned char byte_at(size_t place, uint64_t version)
{
    uint64_t last = version - (version + 3 - place % 3) % 3;
    if (version < 1 || last > version || last < 1)
        last = version >= 1;
    return (unsigned char)(last ? place * 7 + last * 13 : 0);
}

static void store(unsigned char *base, size_t first, size_t size, uint64_t version)
{
    for (size_t i = 0; i < size; i++)
        base[i] = byte_at(first + i, version);
}

/* Puts a version into the parts of all ranks, or gets what is there: each piece of each part by one
 * rank in turn. Returns how many bytes are wrong. */
static size_t transfer(int is_put, size_t size, uint64_t version, MPI_Win win)
{
    static const size_t pieces[] = {65536, 4097, (1 << 20) + 5, (5 << 20) + 13, 20 << 20};
    size_t bad = 0;
    unsigned char *data = malloc(size);
    MPI_Win_lock_all(0, win);
    for (int to = 0; to < ranks; to++)
        for (size_t at = 0, i = 0, count; at < size; at += count, i++) {
            size_t first = (size_t)to * size + at, piece = pieces[i % 5];
            count = size - at < piece ? size - at : piece;
            if (((size_t)to + i) % (size_t)ranks != (size_t)rank)
                continue;
            if (is_put) {
                store(data, first, count, version);
                MPI_Put(data, (int)count, MPI_BYTE, to, (MPI_Aint)at, (int)count, MPI_BYTE, win);
            } else
                MPI_Get(data, (int)count, MPI_BYTE, to, (MPI_Aint)at, (int)count, MPI_BYTE, win);
            MPI_Win_flush(to, win);
            for (size_t j = 0; j < count; j++)
                bad += data[j] != byte_at(first + j, version);
        }
    MPI_Win_unlock_all(win);
    free(data);
    MPI_Barrier(world);
    return bad;
}

/* The last byte of each part on storage is put by the ranks in memory, when the others are already
 * in the commit. */
static void store_late(const char *kind, unsigned char *base, size_t first, size_t size,
                       uint64_t version, MPI_Win win)
{
    store(base, first, size - (strncmp(kind, "mixed", 5) == 0), version);
    if (!is_in_memory(kind, rank))
        return;
    usleep(30000);
    for (int to = 0; to < ranks; to++) {
        unsigned char byte = byte_at((size_t)(to + 1) * size - 1, version);
        MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
        if (!is_in_memory(kind, to))
            MPI_Put(&byte, 1, MPI_BYTE, to, (MPI_Aint)size - 1, 1, MPI_BYTE, win);
        MPI_Win_unlock(to, win);
    }
}

static void print_version(const char *what, uint64_t version)
{
    printf("rank %d: %s %d\n", rank, what, (int)version);
    fflush(stdout);
}

/* By SIGALRM, which is not handled. */
static void die_later(const char *ms)
{
    struct itimerval timer = {{0, 0}, {0, atoi(ms) * 1000}};
    if (ms && rank == 1)
        setitimer(ITIMER_REAL, &timer, NULL);
}

int main(int argc, char **argv)
{
    unsigned char *base;
    uint64_t found = 0, version = 0;
    MPI_Win win;
    mpi_begin(&argc, &argv);
    const char *put = getenv("PUT");
    size_t size = (put ? (size_t)atol(put) : TOTAL) / (size_t)ranks, first = (size_t)rank * size;
    MPI_Info info = make_hints(argv[1], argv[2], first, argv + 4);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    int result = MPI_Win_allocate((MPI_Aint)size, 1, info, world, &base, &win);
    if (result != MPI_SUCCESS)
        fail("allocate", result);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    if ((result = onespace_window_version(win, &found)) != MPI_SUCCESS)
        fail("version", result);
    for (size_t i = 0; found && i < size; i++)
        if (base[i] != (is_in_memory(argv[2], rank) ? 0 : byte_at(first + i, found))) {
            printf("rank %d: byte %zu of version %d is wrong\n", rank, i, (int)found);
            break;
        }
    MPI_Barrier(world); /* no rank puts while others look */
    if (put && found && strncmp(argv[2], "mixed", 5) != 0 && transfer(0, size, found, win))
        printf("rank %d: what was got of version %d is wrong\n", rank, (int)found);
    version = found;
    const char *die = getenv("DIE_AFTER_MS");
    if (die) {
        print_version("found", found);
        MPI_Barrier(world);
        die_later(die);
    }
    for (int i = 0; i < atoi(argv[3]); i++) {
        if (put)
            transfer(1, size, version + 1, win);
        else
            store_late(argv[2], base, first, size, version + 1, win);
        if ((result = onespace_window_commit(win, &version)) != MPI_SUCCESS)
            fail("commit", result);
        if (die && rank == 0)
            print_version("committed", version);
    }
    printf("rank %d: found %d, made %d\n", rank, (int)found, (int)version);
    fflush(stdout);
    if (put)
        transfer(1, size, version + 1, win); /* never committed */
    else
        memset(base, 0xee, size / 2);
    if (getenv("DIE")) {
        MPI_Barrier(world);
        if (rank == 1)
            raise(SIGKILL);
        memset(base, 0xdd, size);
        MPI_Barrier(world);
    }
    MPI_Win_free(&win);
    info_free(info);
    MPI_Finalize();
    return 0;
}
