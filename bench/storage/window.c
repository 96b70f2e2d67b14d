/* bench/storage/window.c: windows in memory and on storage, and code common to the programs that
 * use them. */
#include "window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kind_names[] = {"memory", "create", "mmap", "storage", "combined"};

int rank, ranks;

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "rank %d: ", rank);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    usleep(200000); /* Hydra drops output that it has not read yet when a rank aborts */
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

void check_io(int result, const char *what, const char *path)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (result == MPI_SUCCESS)
        return;
    MPI_Error_string(result, text, &length);
    fail("cannot %s %s: %s", what, path, text);
}

void progress(const char *format, ...)
{
    static double last;
    if (last == 0)
        last = MPI_Wtime();
    if (rank != 0 || MPI_Wtime() - last < 2)
        return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    last = MPI_Wtime();
}

long number_of(const char *text, const char *what)
{
    char *end;
    long number = strtol(text, &end, 10), factor = 1;
    const char *unit = *end ? strchr("KMG", *end) : NULL;
    if (unit && end[1] == '\0')
        factor = 1L << (10 * (1 + (int)(unit - "KMG")));
    if (number < 0 || end == text || (*end && factor == 1))
        fail("%s is a number, with K, M or G behind it for its powers of 1024, not \"%s\"", what,
             text);
    return number * factor;
}

/* ---- The command line ---- */

#define WINDOW_LETTERS "w:f:F:H:D:k"
static const char window_usage[] =
    "  -w KIND    memory (default), create, mmap, storage or combined\n"
    "  -f FILE    where windows of the last three are; a name and the rank's number are appended\n"
    "  -F FACTOR  the part of a combined window that is on storage (default 0.5)\n"
    "  -H K=V     a further info hint; up to 8\n"
    "  -D FILE    a block device's statistics, for what is written: /sys/block/NAME/stat\n"
    "  -k         keep what is in the files\n";

static enum window_kind kind_named(const char *name)
{
    for (size_t i = 0; i < sizeof(kind_names) / sizeof(*kind_names); i++)
        if (strcmp(name, kind_names[i]) == 0)
            return (enum window_kind)i;
    fail("-w is memory, create, mmap, storage or combined, not \"%s\"", name);
}

/* 1 if the option is one of WINDOW_LETTERS. */
static int window_option(int letter, const char *argument, struct window_options *options)
{
    if (letter == 'w') {
        options->kind = kind_named(argument);
    } else if (letter == 'f') {
        options->file = argument;
    } else if (letter == 'F') {
        options->factor = argument;
    } else if (letter == 'H') {
        if (options->hint_count == HINTS_MAX || !strchr(argument, '='))
            fail("-H is KEY=VALUE, at most %d times", HINTS_MAX);
        options->hints[options->hint_count++] = argument;
    } else if (letter == 'D') {
        options->statistics = argument;
    } else if (letter == 'k') {
        options->is_kept = 1;
    } else {
        return 0;
    }
    return 1;
}

void program_begin(int argc, char **argv, struct window_options *options,
                   const struct program_option *own, const char *usage)
{
    char letters[64] = WINDOW_LETTERS;
    size_t length = strlen(letters);
    for (const struct program_option *option = own; option->letter; option++) {
        letters[length++] = option->letter;
        if (!option->flag)
            letters[length++] = ':';
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int letter; (letter = getopt(argc, argv, letters)) != -1;) {
        const struct program_option *option = own;
        while (option->letter && option->letter != letter)
            option++;
        if (option->number)
            *option->number = number_of(optarg, (char[]){'-', (char)letter, 0});
        else if (option->text)
            *option->text = optarg;
        else if (option->flag)
            *option->flag = 1;
        else if (!window_option(letter, optarg, options))
            fail("usage: %s\n%s", usage, window_usage);
    }
}

/* ---- Bytes written ---- */

static double device_bytes(const char *path)
{
    unsigned long long fields[7];
    FILE *file = fopen(path, "r");
    if (!file)
        fail("%s: %s", path, strerror(errno));
    for (int i = 0; i < 7; i++)
        if (fscanf(file, "%llu", &fields[i]) != 1)
            fail("%s: not the statistics of a block device", path);
    fclose(file);
    return (double)fields[6] * 512; /* the kernel counts sectors of 512 bytes on any device */
}

static double sum_of_ranks(double own)
{
    double all;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

double io_so_far(const char *field)
{
    char line[128];
    size_t length = strlen(field);
    double bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, field, length) == 0 && line[length] == ':')
            bytes = strtod(line + length + 1, NULL);
    if (file)
        fclose(file);
    return sum_of_ranks(bytes);
}

double written_so_far(const struct window_options *options)
{
    if (!options->statistics)
        return io_so_far("write_bytes");
    return sum_of_ranks(rank == 0 ? device_bytes(options->statistics) : 0);
}

/* ---- Windows ---- */

static int has_file(enum window_kind kind)
{
    return kind >= WINDOW_MMAP;
}

MPI_Info window_hints(const struct window_options *options)
{
    MPI_Info info;
    MPI_Info_create(&info);
    for (int i = 0; i < options->hint_count; i++) {
        char key[MPI_MAX_INFO_KEY + 1];
        const char *equals = strchr(options->hints[i], '=');
        snprintf(key, sizeof(key), "%.*s", (int)(equals - options->hints[i]), options->hints[i]);
        MPI_Info_set(info, key, (char *)equals + 1);
    }
    return info;
}

static MPI_Info make_hints(const struct window *window, const struct window_options *options,
                           const struct window_request *request)
{
    MPI_Info info = window_hints(options);
    char offset[32];
    if (!has_file(window->kind))
        return info;
    snprintf(offset, sizeof(offset), "%lld", (long long)request->offset);
    MPI_Info_set(info, "alloc_type", "storage");
    MPI_Info_set(info, "storage_alloc_filename", (char *)window->path);
    MPI_Info_set(info, "storage_alloc_offset", offset);
    if (window->kind == WINDOW_COMBINED)
        MPI_Info_set(info, "storage_alloc_factor",
                     (char *)(options->factor ? options->factor : "0.5"));
    return info;
}

static void *map(int flags, int file, size_t bytes, off_t offset, const char *what)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, offset);
    if (memory == MAP_FAILED)
        fail("cannot map %zu bytes of %s: %s", bytes, what, strerror(errno));
    return memory;
}

static void map_file(struct window *window, const struct window_request *request)
{
    off_t page = sysconf(_SC_PAGESIZE), lead = request->offset % page;
    int file = open(window->path, O_RDWR | O_CREAT, 0644), error;
    if (file < 0)
        fail("cannot open %s: %s", window->path, strerror(errno));
    window->mapped = (size_t)(window->bytes + lead);
    error = posix_fallocate(file, request->offset, window->bytes ? window->bytes : 1);
    if (error)
        fail("cannot reserve %ld bytes in %s: %s", (long)window->bytes, window->path,
             strerror(error));
    window->mapping = map(MAP_SHARED, file, window->mapped, request->offset - lead, window->path);
    window->base = (char *)window->mapping + lead;
    close(file);
}

/* A memory window leaves no file, which reveals hints that had no effect. */
static void check_file(const struct window *window, const struct window_request *request)
{
    struct stat status;
    MPI_Aint least = window->kind == WINDOW_COMBINED ? 1 : request->offset + window->bytes;
    if (stat(window->path, &status) != 0 || status.st_size < least)
        fail("alloc_type=storage had no effect, %s is %s: run with `onespace run`, or preload "
             "libonespace-mpi-mpich.so or libonespace-mpi-openmpi.so",
             window->path, access(window->path, F_OK) ? "not there" : "too short");
}

static void name_file(struct window *window, const struct window_options *options,
                      const struct window_request *request)
{
    if (!options->file)
        fail("-w %s needs a file: -f FILE", kind_names[window->kind]);
    if (request->is_shared)
        snprintf(window->path, sizeof(window->path), "%s.%s", options->file, request->name);
    else
        snprintf(window->path, sizeof(window->path), "%s.%s.%d", options->file, request->name,
                 rank);
    window->is_new = !options->is_kept || access(window->path, F_OK) != 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (!options->is_kept && (!request->is_shared || rank == 0) && unlink(window->path) != 0 &&
        errno != ENOENT)
        fail("cannot remove the old %s: %s", window->path, strerror(errno));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* MPICH 4.0 transfers to the wrong place in memory windows that are not a multiple of the page
 * size: with three pages and a word on rank 0, a put to rank 1 arrives in rank 0's last page. */
static MPI_Aint allocated_bytes(const struct window *window)
{
    MPI_Aint page = sysconf(_SC_PAGESIZE);
    return window->kind == WINDOW_MEMORY ? (window->bytes + page - 1) / page * page : window->bytes;
}

void window_make(struct window *window, const struct window_options *options,
                 const struct window_request *request)
{
    *window = (struct window){.bytes = request->bytes, .kind = options->kind, .is_new = 1};
    if (has_file(window->kind))
        name_file(window, options, request);
    MPI_Info info = make_hints(window, options, request);
    if (window->kind == WINDOW_MMAP || window->kind == WINDOW_CREATE) {
        window->mapped = (size_t)window->bytes;
        if (window->kind == WINDOW_MMAP)
            map_file(window, request);
        else if (window->mapped)
            window->base = window->mapping =
                map(MAP_PRIVATE | MAP_ANONYMOUS, -1, window->mapped, 0, "memory");
        MPI_Win_create(window->base, window->bytes, request->unit, MPI_INFO_NULL, MPI_COMM_WORLD,
                       &window->handle);
    } else {
        MPI_Win_allocate(allocated_bytes(window), request->unit, info, MPI_COMM_WORLD,
                         &window->base, &window->handle);
    }
    MPI_Info_free(&info);
    if (window->kind >= WINDOW_STORAGE)
        check_file(window, request);
}

void window_sync(struct window *window)
{
    if (window->kind == WINDOW_MMAP && window->mapped) {
        if (msync(window->mapping, window->mapped, MS_SYNC) != 0)
            fail("cannot write %s: %s", window->path, strerror(errno));
        return;
    }
    int result = MPI_Win_sync(window->handle);
    if (result != MPI_SUCCESS)
        fail("MPI_Win_sync failed with %d", result);
}

void window_free(struct window *window)
{
    MPI_Win_free(&window->handle);
    if (window->mapping)
        munmap(window->mapping, window->mapped);
}
