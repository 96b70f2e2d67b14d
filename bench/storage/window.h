/* bench/storage/window.h: a window of one of the kinds that these programs compare. The programs
 * are plain MPI programs: info hints alone put a window on storage. */
#ifndef BENCH_STORAGE_WINDOW_H
#define BENCH_STORAGE_WINDOW_H

#include <mpi.h>
#include <stddef.h>

enum window_kind {
    WINDOW_MEMORY,   /* MPI_Win_allocate */
    WINDOW_CREATE,   /* MPI_Win_create of the program's own memory */
    WINDOW_MMAP,     /* MPI_Win_create of a file mapped by the program, synchronised by msync. The
                        baseline: a window on storage without library support */
    WINDOW_STORAGE,  /* MPI_Win_allocate with alloc_type=storage */
    WINDOW_COMBINED, /* the same, with a storage_alloc_factor: memory first */
};

enum { HINTS_MAX = 8 };

struct window_options {
    enum window_kind kind;
    const char
        *file; /* path prefix, for kinds with a file; the window's name and the rank are appended */
    const char *factor;           /* the part of a combined window that is on storage */
    const char *hints[HINTS_MAX]; /* KEY=VALUE */
    const char *statistics;       /* the block device's file stat, or NULL */
    int hint_count;
    int is_kept; /* keep the contents of an existing file */
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
    int is_new; /* this rank's part holds nothing of an earlier job */
    char path[4096];
    void *mapping; /* of WINDOW_MMAP and WINDOW_CREATE: what to unmap */
    size_t mapped;
};

/* All are collective. A failure ends the job with a message. */
void window_make(struct window *window, const struct window_options *options,
                 const struct window_request *request);
void window_free(struct window *window);

/* Makes this rank's part durable on the device. Call it inside a passive epoch. */
void window_sync(struct window *window);

/* The hints of the options, as an info object that the caller frees. */
MPI_Info window_hints(const struct window_options *options);

/* ---- The command line ---- */

/* An option of a program's own: its value is a number, a text or, for one without a value, 1. */
struct program_option {
    char letter;
    long *number;
    const char **text;
    int *flag;
};

/* Begins MPI and reads the options: those of windows, and `own`, which ends with letter 0. A wrong
 * one ends the job with `usage`. Afterwards optind is the first argument. */
void program_begin(int argc, char **argv, struct window_options *options,
                   const struct program_option *own, const char *usage);

extern int rank, ranks; /* of MPI_COMM_WORLD, after program_begin */

/* ---- Helpers common to all programs ---- */

/* Ends the job. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Ends the job if a call of MPI I/O failed: "cannot WHAT PATH". */
void check_io(int result, const char *what, const char *path);

/* Rank 0 reports progress on standard error, at most every two seconds. */
void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Bytes written so far: by the device if its statistics are given, else dirtied or written by the
 * ranks' processes (/proc/self/io), summed. The same on all ranks. */
double written_so_far(const struct window_options *options);
/* What /proc/self/io counts as `field`, such as "rchar", likewise summed. */
double io_so_far(const char *field);

long number_of(const char *text, const char *what); /* with suffix K, M or G */

#endif
