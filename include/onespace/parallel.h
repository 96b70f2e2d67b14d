/* onespace/parallel.h: tasks in place of threads, fork and join over the tasks of a node.
 *
 * A team is a group of tasks that work together like the threads of an OpenMP region: they divide
 * loops, reduce values, and synchronise. Unlike threads each has its own globals, heap and libc,
 * and under MPI its own rank; like threads each can follow the others' pointers. (The
 * Process-in-Process paper of HPDC'18, section 4.2 and Figure 4, codes these steps by hand.)
 *
 * There are two kinds of teams:
 *
 *   onespace_parallel_init   the caller creates the other members, as OpenMP creates threads. They
 *                            wait in the library and execute the onespace_parallel_run and
 *                            onespace_parallel_for calls of the creator, member 0.
 *   onespace_parallel_join   tasks that already run, those of `onespace run -n` or the ranks of an
 *                            MPI job, form teams. All of them run their own main.
 *
 * Conventions are those of onespace.h: 0 or a value >= 0 on success, -errno on failure,
 * out-parameters untouched on failure. A team's handle belongs to the member that got it, and is
 * used by one thread at a time. "Collective" means that all members must call the function, in the
 * same order; it orders memory: all see afterwards what any member wrote before.
 *
 * If a member ends or executes another program before the team is released, the team is broken: all
 * waits of the others end, and from then on every call that needs the others returns -EOWNERDEAD.
 * onespace_parallel_lost returns the member's number. The memory of all members, including that
 * one, stays mapped until the team is released. Available since 0.1.0. */
#ifndef ONESPACE_PARALLEL_H
#define ONESPACE_PARALLEL_H

#include <onespace.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ONESPACE_PARALLEL_SHARED_MAX 64 /* shared instances of a team */
#define ONESPACE_PARALLEL_NAME_MAX   47 /* bytes of their names, without the terminating zero */

struct onespace_parallel; /* a member's handle of its team */

/* ---- Creating and releasing teams ---- */

/* Creates a team of `count` tasks (0: one per CPU in the caller's affinity mask): the caller, which
 * becomes the root of a space unless it is a member of one, and count - 1 new tasks of the same
 * program with the arguments argv (argv[0] included, NULL-terminated). Call it early in main: the
 * new tasks also enter main and run up to this call, which does not return there: they serve the
 * team, and exit(0) when it is released. The program must be position independent.
 * -EINVAL: count < 0 or argv missing; -ENOEXEC and others as onespace_spawn: nothing is left
 * behind. -EOWNERDEAD: a new task ended before it reached this call. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_init(struct onespace_parallel **team, int count,
                                                       char *const argv[]);

/* Collective over the tasks that were started together (onespace_ntasks): those with the numbers
 * 0 to count - 1 form a team, the next `count` another, and so on; the last one may be smaller. 0:
 * all form one. May be called again, for additional teams. -ENOENT: the caller has no number.
 * -EPERM outside a space. -EINVAL: count < 0, or differs between members; -EOWNERDEAD. -ENOMEM,
 * -ENOSPC, -EAGAIN: as onespace_export; if a team's first task fails so, the others wait until it
 * has ended. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_join(struct onespace_parallel **team, int count);

/* Releases the team with its shared instances, and frees the handle. For a team made by
 * onespace_parallel_init: called by its creator, outside a region; ends the tasks. Otherwise
 * collective. -EDEADLK within a region (nothing happens). -EOWNERDEAD: the team was broken; it is
 * released anyway, and tasks created for it that do not end within a second are killed. */
ONESPACE_API int onespace_parallel_fini(struct onespace_parallel *team);

/* The caller's number in the team, from 0, and the count of members. */
ONESPACE_API int onespace_parallel_number(const struct onespace_parallel *team);
ONESPACE_API int onespace_parallel_count(const struct onespace_parallel *team);

/* The number of the member whose end broke the team (the first one noticed), or -1. */
ONESPACE_API int onespace_parallel_lost(const struct onespace_parallel *team);

/* ---- Fork and join ---- */

/* The function that a region runs in each member, with the member's own handle. Non-zero: an
 * error. */
typedef int onespace_parallel_body(struct onespace_parallel *team, void *argument);

/* Runs a region: called by member 0; all members call `body` with `argument`, each its own copy of
 * that function (in the program or in a library that both have loaded), with its own globals;
 * returns when all have finished. `argument` is member 0's pointer, valid in all members. Returns
 * 0, or the result of body in the lowest-numbered member where it was not 0. -ENOENT: a member
 * lacks the library of `body`. -EDEADLK within a region. -EINVAL: not member 0. -EOWNERDEAD.
 * In a team of onespace_parallel_join the others must be in onespace_parallel_serve. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_run(struct onespace_parallel *team,
                                                      onespace_parallel_body *body, void *argument);

/* Members other than 0 of a team of onespace_parallel_join: executes the regions of member 0 until
 * it calls onespace_parallel_dismiss. -EINVAL: called by member 0, or member 0 runs another
 * program. -EOWNERDEAD. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_serve(struct onespace_parallel *team);

/* Member 0: makes onespace_parallel_serve return in the others. For teams of
 * onespace_parallel_join; -EINVAL for other teams and in other members, -EDEADLK within a region,
 * -EOWNERDEAD. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_dismiss(struct onespace_parallel *team);

/* ---- Work sharing ---- */

/* Loop schedules: one contiguous block per member; blocks of `chunk` iterations, round robin;
 * blocks of `chunk`, on demand. chunk > 0. */
#define ONESPACE_PARALLEL_STATIC         0L
#define ONESPACE_PARALLEL_CYCLIC(chunk)  (-(long)(chunk))
#define ONESPACE_PARALLEL_DYNAMIC(chunk) ((long)(chunk))

/* A part of a loop: the iterations from begin to end - 1. */
typedef void onespace_parallel_part(long begin, long end, void *argument);

/* Divides the iterations begin to end - 1 among the members; returns when all have finished.
 * Collective, except that in a team of onespace_parallel_init member 0 alone calls it outside a
 * region; it is then a region of its own, like `#pragma omp parallel for` (`argument` is member
 * 0's, and each member runs its own copy of `part`). -EOWNERDEAD: iterations may be missing.
 * -ENOENT as in onespace_parallel_run. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_for(struct onespace_parallel *team, long begin,
                                                      long end, long schedule,
                                                      onespace_parallel_part *part, void *argument);

/* Waits for all members. Collective. -EDEADLK: outside a region, where the others serve.
 * -EOWNERDEAD. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_barrier(struct onespace_parallel *team);

enum onespace_parallel_type { ONESPACE_PARALLEL_LONG, ONESPACE_PARALLEL_DOUBLE };
enum onespace_parallel_operation {
    ONESPACE_PARALLEL_SUM,
    ONESPACE_PARALLEL_MIN,
    ONESPACE_PARALLEL_MAX
};

/* Combines the members' `count` values element by element, in the order of the members' numbers (so
 * that sums of doubles are reproducible); all get the result in place. Collective, with the same
 * count, type and operation. -EINVAL: no such type or operation. -EDEADLK, -EOWNERDEAD (the values
 * are then undefined). */
ONESPACE_API ONESPACE_CHECK int
onespace_parallel_reduce(struct onespace_parallel *team, void *values, size_t count,
                         enum onespace_parallel_type type,
                         enum onespace_parallel_operation operation);

/* into[i] becomes the combination of into[i] and from[i], for `count` elements. */
typedef void onespace_parallel_combine_function(void *into, const void *from, size_t count);

/* The same with a user-defined function, for elements of `size` bytes. Each member combines some of
 * the elements, with its own copy of the function. */
ONESPACE_API ONESPACE_CHECK int
onespace_parallel_combine(struct onespace_parallel *team, void *values, size_t count, size_t size,
                          onespace_parallel_combine_function *combine);

/* ---- Shared instances ---- */

/* The team's single instance of that name: `size` bytes at the same address in all members,
 * initially zero, page-aligned. The first caller creates it; it exists until the team is released.
 * Not collective; may be called at any time. -EEXIST: it has another size. -ENAMETOOLONG, -EINVAL
 * (empty name, size 0), -ENOSPC (ONESPACE_PARALLEL_SHARED_MAX instances), -ENOMEM, -EOWNERDEAD. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_shared(struct onespace_parallel *team,
                                                         const char *name, size_t size,
                                                         void **address);

#ifdef __cplusplus
}
#endif
#endif
