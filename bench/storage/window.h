/* bench/storage/window.h: one window, of one of the kinds that these programs compare. The programs
 * are plain MPI programs: what puts a window on storage are the info hints. */
#ifndef BENCH_STORAGE_WINDOW_H
#define BENCH_STORAGE_WINDOW_H

#include <mpi.h>
#include <stddef.h>

enum window_kind {
    WINDOW_MEMORY, /* MPI_Win_allocate */
    WINDOW_CREATE, /* MPI_Win_create of the program's own memory */
    WINDOW_MMAP, /* MPI_Win_create of a file that the program maps; its syncs are msync's. The peer:
                    what a window on storage is without a library for it */
    WINDOW_STORAGE,  /* MPI_Win_allocate with alloc_type=storage */
    WINDOW_COMBINED, /* the same, with a storage_alloc_factor: memory first */
};

enum { MOST_HINTS = 8 };

struct window_options {
    enum window_kind kind;
    const char
        *file; /* of the kinds that have one; the window's name and the rank's number follow */
    const char *factor;            /* the part of a combined window that is on storage */
    const char *hints[MOST_HINTS]; /* KEY=VALUE */
    const char *statistics;        /* the block device's file stat, or NULL */
    int hint_count;
    int is_kept; /* the file stays as it is, with what is in it */
};

struct window_request {
    const char *name;
    MPI_Aint bytes;
    int unit;
    MPI_Offset offset; /* in the file */
    int is_shared;     /* one file for all ranks */
};

struct window {
    MPI_Win handle;
    char *base;
    MPI_Aint bytes;
    enum window_kind kind;
    int is_new; /* nothing of an earlier job is in this rank's part */
    char path[4096];
    void *mapping; /* of WINDOW_MMAP and WINDOW_CREATE: what to unmap */
    size_t mapped;
};

/* Collective, all of them. What fails ends the job with a message. */
void window_make(struct window *window, const struct window_options *options,
                 const struct window_request *request);
void window_free(struct window *window);

/* What is in this rank's part is on the device when it returns. Inside a passive epoch. */
void window_sync(struct window *window);

/* ---- Options that all programs have ---- */

#define WINDOW_GETOPT "w:f:F:H:D:k"
#define WINDOW_USAGE                                                                               \
    "  -w KIND    memory (default), create, mmap, storage or combined\n"                           \
    "  -f FILE    where windows of the last three are; a name and the rank's number are "          \
    "appended\n"                                                                                   \
    "  -F FACTOR  the part of a combined window that is on storage (default 0.5)\n"                \
    "  -H K=V     a further info hint; up to 8\n"                                                  \
    "  -D FILE    a block device's statistics, for what is written: /sys/block/NAME/stat\n"        \
    "  -k         keep what is in the files\n"

/* 1 when the option is one of these. */
int window_option(int option, const char *argument, struct window_options *options);

/* ---- What all programs need ---- */

/* Ends the job. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Ends the job when a call of MPI I/O failed: "cannot WHAT PATH". */
void check_io(int result, const char *what, const char *path);

/* From rank 0, on standard error, when two seconds have gone by since the last one. */
void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Bytes that were written so far: by the device where its statistics are given, else what this
 * process has made dirty or written (/proc/self/io). Summed over the ranks in the second case; the
 * same on all ranks. */
double written_so_far(const struct window_options *options);

/* The longest of all ranks. */
double longest(double seconds);

long number_of(const char *text, const char *what); /* with K, M or G behind it */

#endif
