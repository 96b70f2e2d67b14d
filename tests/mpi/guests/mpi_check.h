/* mpi_check.h: what the MPI guests share: their rank and its neighbours, how they begin and end,
 * how they count and report wrong results, cases that run by name, files and hints for windows. */
#ifndef ONESPACE_TESTS_MPI_GUESTS_MPI_CHECK_H
#define ONESPACE_TESTS_MPI_GUESTS_MPI_CHECK_H

#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static MPI_Comm world; /* of all ranks */
static int rank, ranks, next_rank, previous_rank;
static _Atomic int wrong;

static inline void check(int holds, const char *what, int line)
{
    if (!holds && wrong++ < 10)
        printf("rank %d, line %d: %s\n", rank, line, what);
}
#define CHECK(condition) check((condition) != 0, #condition, __LINE__)
#define OK(call)         check((call) == MPI_SUCCESS, #call, __LINE__)

static inline int class_of(int error)
{
    int class = MPI_SUCCESS;
    if (error != MPI_SUCCESS)
        MPI_Error_class(error, &class);
    return class;
}

/* ---- Begin and end ---- */

#ifdef MPI_SESSION_NULL
static MPI_Session session;

/* In a program that never calls MPI_Init. */
static inline void session_begin(void)
{
    MPI_Group group;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "guest", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &world);
    MPI_Group_free(&group);
}

static inline void session_end(void)
{
    MPI_Comm_free(&world);
    MPI_Session_finalize(&session);
}
#else
static inline void session_begin(void)
{
    exit(2);
}
static inline void session_end(void)
{
}
#endif

static inline void mpi_find_ranks(MPI_Comm comm)
{
    world = comm;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    next_rank = (rank + 1) % ranks;
    previous_rank = (rank + ranks - 1) % ranks;
}

/* SESSION in the environment: by a session. Returns the level of threads that the program has. */
static inline int mpi_begin_threads(int *argc, char ***argv, int level)
{
    int provided = MPI_THREAD_SINGLE;
    if (getenv("SESSION"))
        session_begin();
    else {
        MPI_Init_thread(argc, argv, level, &provided);
        world = MPI_COMM_WORLD;
    }
    mpi_find_ranks(world);
    return provided;
}

static inline void mpi_begin(int *argc, char ***argv)
{
    (void)mpi_begin_threads(argc, argv, MPI_THREAD_SINGLE);
}

static inline void report(void)
{
    printf("rank %d: %d wrong\n", rank, wrong);
    fflush(stdout); /* a launcher may end a job whose MPI_Finalize hangs (docs/storage.md) */
}

/* Returns the program's exit status. */
static inline int finalize(void)
{
    if (getenv("SESSION"))
        session_end();
    else
        MPI_Finalize();
    return wrong != 0;
}

static inline int mpi_end(void)
{
    report();
    return finalize();
}

/* The same where rank 0 prints much, which launchers forward in pieces that end within a line: it
 * reports for all ranks. */
static inline int mpi_end_by_root(void)
{
    int own = wrong, *all = calloc((size_t)ranks, sizeof(*all));
    if (!all)
        abort();
    MPI_Gather(&own, 1, MPI_INT, all, 1, MPI_INT, 0, world);
    for (int i = 0; rank == 0 && i < ranks; i++)
        printf("rank %d: %d wrong\n", i, all[i]);
    fflush(stdout);
    free(all);
    return finalize();
}

/* ---- Cases ---- */

static struct {
    const char *name;
    void (*run)(void);
} cases[100];
static size_t case_count;

/* CASE(name) { ... }: a case that run_cases() finds by its name. */
#define CASE(function)                                                                             \
    static void function(void);                                                                    \
    __attribute__((constructor)) static void register_##function(void)                             \
    {                                                                                              \
        if (case_count == COUNT_OF(cases))                                                         \
            abort();                                                                               \
        cases[case_count].name = #function;                                                        \
        cases[case_count++].run = function;                                                        \
    }                                                                                              \
    static void function(void)

/* Runs the cases of these names, one after another on all ranks. */
static inline void run_cases(char *const *names)
{
    for (; *names; names++) {
        size_t i = 0;
        while (i < case_count && strcmp(cases[i].name, *names) != 0)
            i++;
        check(i < case_count, *names, __LINE__);
        if (i < case_count)
            cases[i].run();
        MPI_Barrier(world);
    }
}

/* Runs `work` in three threads, each with a communicator of its own as argument. */
static inline void run_threads(void *(*work)(void *comm))
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    MPI_Comm comms[THREADS];
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(world, &comms[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &comms[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
}

/* ---- Files and hints ---- */

static const char *directory; /* of the files */

/* The path of NAME in the directory, with the number behind it unless that is negative. It stays
 * valid for a few dozen calls. */
static inline char *path_of(const char *name, int number)
{
    static char paths[64][4096];
    static _Atomic unsigned used;
    char *path = paths[used++ % COUNT_OF(paths)];
    snprintf(path, sizeof(paths[0]), number < 0 ? "%s/%s" : "%s/%s%d", directory, name, number);
    return path;
}

#define PAIRS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Adds "NAME=VALUE" pairs up to a NULL. */
static inline void info_add(MPI_Info info, const char *const *pairs)
{
    for (; pairs && *pairs; pairs++) {
        char name[MPI_MAX_INFO_KEY + 1];
        const char *value = strchr(*pairs, '=');
        snprintf(name, sizeof(name), "%.*s", (int)(value - *pairs), *pairs);
        MPI_Info_set(info, name, (char *)value + 1);
    }
}

static inline MPI_Info info_of(const char *const *pairs)
{
    MPI_Info info;
    MPI_Info_create(&info);
    info_add(info, pairs);
    return info;
}

/* For a window on storage. */
static inline MPI_Info hints(const char *path, const char *const *pairs)
{
    MPI_Info info = info_of(PAIRS("alloc_type=storage"));
    if (path)
        MPI_Info_set(info, "storage_alloc_filename", (char *)path);
    info_add(info, pairs);
    return info;
}

/* For this rank's part of one FILE for all ranks, at an offset, or of a file per rank: FILE.RANK.
 */
static inline MPI_Info part_hints(const char *file, int is_one_file, size_t offset,
                                  const char *const *pairs)
{
    char path[4096], text[64];
    snprintf(path, sizeof(path), is_one_file ? "%s" : "%s.%d", file, rank);
    snprintf(text, sizeof(text), "storage_alloc_offset=%zu", is_one_file ? offset : 0);
    MPI_Info info = hints(path, PAIRS(text));
    info_add(info, pairs);
    return info;
}

static inline void info_free(MPI_Info info)
{
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
}

/* ---- Windows ---- */

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

#endif
