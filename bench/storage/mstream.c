/* bench/storage/mstream.c: large accesses to a rank's own window, alternating puts and gets, each
 * under an exclusive lock; then the window is synchronised. The kernels: SEQ goes through the
 * window in order, PAD takes the even segments first and then the odd ones, RND picks them at
 * random, MIX is half RND and half PAD.
 *
 *   mstream [options of windows] [-b BYTES] [-s SEGMENT] [-n PASSES] [-o both|put|get] KERNEL...
 *       For each kernel, with X the window's bytes:
 *       "KERNEL-passes X SECONDS";
 *       "KERNEL-sync X SECONDS", the synchronisation at the end;
 *       "KERNEL-dirty X BYTES" that differ from the last synchronisation, by count of segments;
 *       "KERNEL-written-before X BYTES" that went to storage during the passes;
 *       "KERNEL-written-sync X BYTES".
 *
 * At the end the contents of the window and of its file are verified. */
#include "window.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "../lib/bench.h"

enum { PAGE = 4096, PAGE_WORDS = PAGE / 8 };

static long bytes = 1L << 30, segment = 16L << 20, segments, passes = 10;
static struct window_options options;
static struct window window;
static uint64_t *source, *sink;
static uint64_t *stamps; /* by segment: the model of its contents; 0: never written */
static char *is_dirty;   /* by segment */
static const char *accesses = "both";
static uint64_t last_stamp;

/* ---- Contents of a segment: a stamp in each page, and words that differ ---- */

static uint64_t filler(long word)
{
    return (uint64_t)word * 0x9e3779b97f4a7c15u;
}

static void stamp(uint64_t *data, uint64_t value)
{
    for (long word = 0; word < segment / 8; word += PAGE_WORDS)
        data[word] = value;
}

static int holds(const uint64_t *data, uint64_t value)
{
    for (long word = 0; word < segment / 8; word++)
        if (data[word] != (value == 0 ? 0 : word % PAGE_WORDS == 0 ? value : filler(word)))
            return 0;
    return 1;
}

/* ---- Kernels: the n-th segment to access ---- */

static uint64_t random_state;

static long seq_at(long n)
{
    return n;
}

static long pad_at(long n)
{
    long place = 2 * n;
    return place < segments ? place : (place - segments) | (segments % 2 == 0);
}

static long rnd_at(long n)
{
    (void)n;
    return (long)(bench_random(&random_state) >> 1) % segments;
}

static long mix_at(long n)
{
    return n < segments / 2 ? rnd_at(n) : pad_at(n);
}

static const struct kernel {
    const char *name;
    long (*at)(long n);
} kernels[] = {{"SEQ", seq_at}, {"PAD", pad_at}, {"RND", rnd_at}, {"MIX", mix_at}};

/* ---- Accesses ---- */

static void put(long which)
{
    stamps[which] = ++last_stamp;
    stamp(source, last_stamp);
    MPI_Put(source, (int)segment, MPI_BYTE, rank, which * segment, (int)segment, MPI_BYTE,
            window.handle);
    is_dirty[which] = 1;
}

static void get(long which)
{
    MPI_Get(sink, (int)segment, MPI_BYTE, rank, which * segment, (int)segment, MPI_BYTE,
            window.handle);
}

static void pass(const struct kernel *kernel)
{
    int has_puts = strcmp(accesses, "get") != 0, has_gets = strcmp(accesses, "put") != 0;
    for (long n = 0; n < segments; n++) {
        long which = kernel->at(n);
        int is_put = has_puts && (!has_gets || n % 2 == 0);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window.handle);
        if (is_put)
            put(which);
        else
            get(which);
        MPI_Win_unlock(rank, window.handle);
        if (!is_put && sink[0] != stamps[which])
            fail("%s: a get from segment %ld gave what is not in it", kernel->name, which);
    }
}

static void synchronise(void)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window.handle);
    window_sync(&window);
    MPI_Win_unlock(rank, window.handle);
    memset(is_dirty, 0, (size_t)segments);
}

static void print_line(const struct kernel *kernel, const char *what, double value)
{
    printf("%s-%s %ld %.9f\n", kernel->name, what, bytes, value);
}

static void measure(const struct kernel *kernel)
{
    double start, passed, synced, written[3], dirty = 0;
    random_state = 88172645463325252u;
    pass(kernel); /* warm-up, not counted */
    synchronise();
    written[0] = written_so_far(&options);
    start = MPI_Wtime();
    for (long i = 0; i < passes; i++) {
        pass(kernel);
        progress("mstream: %s, pass %ld of %ld", kernel->name, i + 1, passes);
    }
    passed = MPI_Wtime();
    written[1] = written_so_far(&options);
    for (long i = 0; i < segments; i++)
        dirty += is_dirty[i] ? (double)segment : 0;
    synced = MPI_Wtime();
    synchronise();
    print_line(kernel, "sync", MPI_Wtime() - synced);
    written[2] = written_so_far(&options);
    print_line(kernel, "passes", passed - start);
    print_line(kernel, "dirty", dirty);
    print_line(kernel, "written-before", written[1] - written[0]);
    print_line(kernel, "written-sync", written[2] - written[1]);
}

/* ---- Verification against the model ---- */

static void check_window(void)
{
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window.handle);
    for (long i = 0; i < segments; i++)
        if (!holds((uint64_t *)(window.base + i * segment), stamps[i]))
            fail("segment %ld of the window holds what was not put there", i);
    MPI_Win_unlock(rank, window.handle);
}

/* The file holds the end of a combined window, and all of other windows. */
static void check_file(const char *path)
{
    struct stat status;
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &status) != 0)
        fail("cannot read %s: %s", path, strerror(errno));
    for (long i = (bytes - status.st_size + segment - 1) / segment; i < segments; i++) {
        if (pread(file, sink, (size_t)segment, status.st_size - bytes + i * segment) != segment)
            fail("cannot read segment %ld of %s", i, path);
        if (!holds(sink, stamps[i]))
            fail("segment %ld is not in %s as it was put", i, path);
    }
    close(file);
}

/* Memory that was never stored to maps to the zero page and costs nothing to read, so give every
 * segment pages of its own. */
static void put_zeroes(void)
{
    memset(sink, 0, (size_t)segment);
    for (long i = 0; i < segments; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window.handle);
        MPI_Put(sink, (int)segment, MPI_BYTE, rank, i * segment, (int)segment, MPI_BYTE,
                window.handle);
        MPI_Win_unlock(rank, window.handle);
    }
}

static void prepare(void)
{
    segments = bytes / segment;
    if (segment % PAGE || segment < PAGE || segment > (1L << 30) || segments < 2)
        fail("a segment is of whole pages, up to 1G, and there are two or more in the window");
    bytes = segments * segment;
    source = aligned_alloc(PAGE, (size_t)segment);
    sink = aligned_alloc(PAGE, (size_t)segment);
    stamps = calloc((size_t)segments, sizeof(*stamps));
    is_dirty = calloc((size_t)segments, 1);
    if (!source || !sink || !stamps || !is_dirty)
        fail("no memory for segments of %ld bytes", segment);
    for (long word = 0; word < segment / 8; word++)
        source[word] = filler(word);
    struct window_request request = {"mstream", bytes, 1, 0, 0};
    window_make(&window, &options, &request);
    put_zeroes();
}

static const struct kernel *kernel_named(const char *name)
{
    for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    fail("kernels are SEQ, PAD, RND and MIX, not \"%s\"", name);
}

int main(int argc, char **argv)
{
    const struct program_option own[] = {{'b', .number = &bytes},
                                         {'s', .number = &segment},
                                         {'n', .number = &passes},
                                         {'o', .text = &accesses},
                                         {0}};
    program_begin(argc, argv, &options, own,
                  "mstream [options] [-b BYTES] [-s SEGMENT] [-n PASSES] [-o both|put|get] "
                  "KERNEL...");
    if (ranks != 1)
        fail("mstream is for one rank");
    prepare();
    for (int i = optind; i < argc; i++)
        measure(kernel_named(argv[i]));
    check_window();
    window_free(&window);
    if (options.kind >= WINDOW_MMAP)
        check_file(window.path);
    MPI_Finalize();
    return 0;
}
