/* bench/storage/hacc.c: checkpoint and restart of particles in one shared file, in the layout of
 * HACC's I/O kernel: a header of 24 MiB, then one block per rank with its arrays one after another,
 * 38 bytes per particle.
 *
 *   hacc [options of windows] [-m window|independent|collective] [-n PARTICLES]
 *       With X the particles of all ranks:
 *       "checkpoint X SECONDS": from opening a new file until it is closed and on the device;
 *       "restart X SECONDS": from opening until the arrays are filled, with the file dropped from
 *       the page cache before.
 *
 * -H gives info hints to MPI I/O, too. The file is verified by plain reads against the arrays, the
 * arrays after the restart against their previous contents. */
#include "window.h"

#include <fcntl.h>
#include <limits.h>

#include "../lib/bench.h"

enum { HEADER = 24 << 20, ARRAYS = 9, PARTICLE = 38, PIECE = 1 << 20 };

/* xx yy zz vx vy vz phi: float; pid: int64_t; mask: uint16_t */
static const size_t widths[ARRAYS] = {4, 4, 4, 4, 4, 4, 4, 8, 2};

static struct window_options options;
static char path[4096];
static char *arrays[ARRAYS];
static long particles = 8 << 20, own; /* of all ranks, of this rank */
static long first;                    /* global index of this rank's first */

static MPI_Offset block(void)
{
    return HEADER + (MPI_Offset)first * PARTICLE;
}

/* ---- Contents of the arrays ---- */

static unsigned char byte_at(int array, long particle, size_t byte)
{
    uint64_t value = ((uint64_t)particle * ARRAYS + (uint64_t)array + 1) * 0x9e3779b97f4a7c15u;
    return (unsigned char)(value >> (8 * (byte % 8)));
}

static void fill(void)
{
    for (int array = 0; array < ARRAYS; array++)
        for (long at = 0; at < own; at++)
            for (size_t byte = 0; byte < widths[array]; byte++)
                arrays[array][(size_t)at * widths[array] + byte] =
                    (char)byte_at(array, first + at, byte);
}

static int is_filled(void)
{
    for (int array = 0; array < ARRAYS; array++)
        for (long at = 0; at < own; at++)
            for (size_t byte = 0; byte < widths[array]; byte++)
                if ((unsigned char)arrays[array][(size_t)at * widths[array] + byte] !=
                    byte_at(array, first + at, byte))
                    return 0;
    return 1;
}

static void empty(void)
{
    for (int array = 0; array < ARRAYS; array++)
        memset(arrays[array], 0, (size_t)own * widths[array]);
}

/* ---- By a window: this rank's block is its part of the window ---- */

static void open_window(struct window *window, int is_kept)
{
    struct window_request request = {"hacc", own * PARTICLE, 1, block(), 1};
    options.is_kept = is_kept;
    window_make(window, &options, &request);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window->handle);
}

static void close_window(struct window *window)
{
    MPI_Win_unlock(rank, window->handle);
    window_free(window);
}

/* Each array, as an argument for the reads and writes of MPI I/O. */
static void exchange(struct window *window, int is_put)
{
    MPI_Aint at = 0;
    for (int array = 0; array < ARRAYS; array++) {
        int bytes = (int)((size_t)own * widths[array]);
        if (is_put)
            MPI_Put(arrays[array], bytes, MPI_BYTE, rank, at, bytes, MPI_BYTE, window->handle);
        else
            MPI_Get(arrays[array], bytes, MPI_BYTE, rank, at, bytes, MPI_BYTE, window->handle);
        at += bytes;
    }
    MPI_Win_flush(rank, window->handle);
}

static void window_checkpoint(void)
{
    struct window window;
    open_window(&window, 0);
    exchange(&window, 1);
    if (options.kind == WINDOW_MMAP)
        window_sync(&window);
    close_window(&window); /* which makes a window on storage durable */
}

static void window_restart(void)
{
    struct window window;
    open_window(&window, 1);
    exchange(&window, 0);
    close_window(&window);
}

/* ---- By MPI I/O: one call per array, as in HACC ---- */

static int is_collective;

static MPI_File open_file(int mode)
{
    MPI_File file;
    MPI_Info info = window_hints(&options);
    check_io(MPI_File_open(MPI_COMM_WORLD, path, mode, info, &file), "open", path);
    MPI_Info_free(&info);
    return file;
}

static void transfer(MPI_File file, int is_write)
{
    MPI_Offset at = block();
    for (int array = 0; array < ARRAYS; array++) {
        int bytes = (int)((size_t)own * widths[array]), got, result;
        MPI_Status status;
        if (is_write)
            result = (is_collective ? MPI_File_write_at_all : MPI_File_write_at)(
                file, at, arrays[array], bytes, MPI_BYTE, &status);
        else
            result = (is_collective ? MPI_File_read_at_all : MPI_File_read_at)(
                file, at, arrays[array], bytes, MPI_BYTE, &status);
        check_io(result, is_write ? "write" : "read", path);
        MPI_Get_count(&status, MPI_BYTE, &got);
        if (got != bytes)
            fail("only %d of %d bytes were transferred: %s", got, bytes, path);
        at += bytes;
    }
}

static void file_checkpoint(void)
{
    if (rank == 0 && unlink(path) != 0 && errno != ENOENT)
        fail("cannot remove the old %s: %s", path, strerror(errno));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File file = open_file(MPI_MODE_RDWR | MPI_MODE_CREATE);
    transfer(file, 1);
    check_io(MPI_File_sync(file), "synchronise", path);
    MPI_File_close(&file);
}

static void file_restart(void)
{
    MPI_File file = open_file(MPI_MODE_RDONLY);
    transfer(file, 0);
    MPI_File_close(&file);
}

static const struct mode {
    const char *name;
    void (*checkpoint)(void), (*restart)(void);
    int is_collective;
} modes[] = {{"window", window_checkpoint, window_restart, 0},
             {"independent", file_checkpoint, file_restart, 0},
             {"collective", file_checkpoint, file_restart, 1}};

/* ---- Measuring ---- */

static double timed(void (*call)(void))
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    call();
    MPI_Barrier(MPI_COMM_WORLD);
    return bench_slowest(MPI_Wtime() - start);
}

static void check_file(void)
{
    static char piece[PIECE];
    MPI_Offset at = block();
    int file = open(path, O_RDONLY);
    if (file < 0)
        fail("cannot open %s: %s", path, strerror(errno));
    for (int array = 0; array < ARRAYS; array++) {
        size_t bytes = (size_t)own * widths[array];
        for (size_t done = 0, step; done < bytes; done += step) {
            step = bytes - done < PIECE ? bytes - done : PIECE;
            if (pread(file, piece, step, at + (MPI_Offset)done) != (ssize_t)step ||
                memcmp(piece, arrays[array] + done, step) != 0)
                fail("%s does not hold what was in the arrays, at byte %lld", path,
                     (long long)at + (long long)done);
        }
        at += (MPI_Offset)bytes;
    }
    close(file);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void forget_file(void)
{
    int file = open(path, O_RDONLY);
    int error = file < 0 ? errno : posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    if (error)
        fail("cannot drop %s from the page cache: %s", path, strerror(error));
    close(file);
}

static void measure(const struct mode *mode)
{
    is_collective = mode->is_collective;
    double checkpoint = timed(mode->checkpoint), restart;
    progress("hacc: the checkpoint is written");
    check_file();
    forget_file();
    empty();
    restart = timed(mode->restart);
    if (!is_filled())
        fail("the arrays are not what they were before the restart");
    if (rank == 0)
        printf("checkpoint %ld %.9f\nrestart %ld %.9f\n", particles, checkpoint, particles,
               restart);
}

/* Blocks begin at multiples of 16 bytes: in windows at other addresses, as mmap makes them, MPICH
 * 4.0.2 transfers to 8 bytes before the place, also between processes. */
static long first_of(int of)
{
    return of == ranks ? particles : particles * of / ranks / 8 * 8;
}

static void allocate(void)
{
    first = first_of(rank);
    own = first_of(rank + 1) - first;
    if (own * 8 > INT_MAX)
        fail("%ld particles a rank are too many: use more ranks", own);
    for (int array = 0; array < ARRAYS; array++)
        if (!(arrays[array] = malloc((size_t)own * widths[array] + 1)))
            fail("no memory for %ld particles", own);
    fill();
}

int main(int argc, char **argv)
{
    static const char usage[] = "hacc [options] [-m window|independent|collective] [-n PARTICLES]";
    const char *name = "window";
    program_begin(argc, argv, &options,
                  (struct program_option[]){{'m', .text = &name}, {'n', .number = &particles}, {0}},
                  usage);
    const struct mode *mode = modes;
    while (mode < modes + 3 && strcmp(name, mode->name) != 0)
        mode++;
    if (!options.file || particles < 8L * ranks || mode == modes + 3)
        fail("usage: %s, with a file and at least 8 particles for each rank", usage);
    if (mode == &modes[0] && options.kind != WINDOW_MMAP && options.kind != WINDOW_STORAGE)
        fail("the window is on storage: -w storage or -w mmap");
    snprintf(path, sizeof(path), "%s.hacc", options.file);
    allocate();
    measure(mode);
    MPI_Finalize();
    return 0;
}
