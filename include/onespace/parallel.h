/* onespace/parallel.h: tasks in place of threads, fork and join over the tasks of a node.
 *
 * A team is a number of tasks that work together as the threads of an OpenMP region do: they share
 * out loops, add up values, wait for one another. Unlike threads each has its own globals, heap and
 * libc, and under MPI its own rank; like threads each can follow the others' pointers. (The
 * Process-in-Process paper of HPDC'18, section 4.2 and Figure 4, which writes these steps out.)
 *
 * There are two kinds of teams:
 *
 *   onespace_parallel_init   the caller makes the other members, as OpenMP makes threads. They wait
 *                            in the library and do what onespace_parallel_run and
 *                            onespace_parallel_for of the maker, member 0, tell them.
 *   onespace_parallel_join   tasks that run already, those of `onespace run -n` or the ranks of an
 *                            MPI job, form teams. All of them run their own main.
 *
 * Conventions are those of onespace.h: 0 or a value >= 0 on success, -errno on failure,
 * out-parameters untouched on failure. A team's handle belongs to the member that got it, whose
 * threads must take turns in using it. "Collective" means that all members must call the function,
 * in the same order; memory is ordered: what was written before, all see after.
 *
 * When a member ends or executes another program before the team is given back, its team is broken:
 * all waits of the others end, and every call that needs the others, from then on, returns
 * -EOWNERDEAD. onespace_parallel_lost tells whose end it was. The members' memory, of that one too,
 * stays until the team is given back. Available since 0.1.0. */
#ifndef ONESPACE_PARALLEL_H
#define ONESPACE_PARALLEL_H

#include <onespace.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ONESPACE_PARALLEL_SHARED_MAX 64 /* shared instances of a team */
#define ONESPACE_PARALLEL_NAME_MAX   47 /* bytes of their names, without the terminating zero */

struct onespace_parallel; /* a member's handle of its team */

/* ---- Making teams and giving them back ---- */

/* Makes a team of `count` tasks (0: as many as the caller may use processors): the caller, which
 * becomes the root of a space unless it is a member of one, and count - 1 new tasks of the same
 * program with the arguments argv (argv[0] included, NULL-terminated). Call it early in main: the
 * new tasks, too, enter main and run up to this call, which does not return there: they serve the
 * team, and exit(0) when it is given back. The program must be position independent.
 * -EINVAL: count < 0 or argv missing; -ENOEXEC and others as onespace_spawn: nothing is left
 * behind. -EOWNERDEAD: a new task ended before it came to this call. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_init(struct onespace_parallel **team, int count,
                                                       char *const argv[]);

/* Collective over the tasks that were started together (onespace_ntasks): those with the numbers
 * 0 to count - 1 form a team, the next `count` another, and so on; the last one may be smaller. 0:
 * all form one. May be called again, for teams beside these. -ENOENT: the caller has no number.
 * -EPERM outside a space. -EINVAL: count < 0, or the members do not agree on it; -EOWNERDEAD. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_join(struct onespace_parallel **team, int count);

/* Gives the team back, and with it the shared instances and the handle. By the maker of a team made
 * by onespace_parallel_init, outside a region, when it also ends the tasks; otherwise collective.
 * -EDEADLK within a region (nothing happens). -EOWNERDEAD: the team was broken; it is given back
 * all the same, and new tasks that do not end by themselves within a second are killed. */
ONESPACE_API int onespace_parallel_fini(struct onespace_parallel *team);

/* The caller's number in the team, from 0, and the count of members. */
ONESPACE_API int onespace_parallel_number(const struct onespace_parallel *team);
ONESPACE_API int onespace_parallel_count(const struct onespace_parallel *team);

/* The number of the member whose end broke the team (the first that was noticed), or -1. */
ONESPACE_API int onespace_parallel_lost(const struct onespace_parallel *team);

/* ---- Fork and join ---- */

/* What a region runs in each member, with the member's own handle. Other than 0 is an error. */
typedef int onespace_parallel_body(struct onespace_parallel *team, void *argument);

/* Runs a region: member 0 calls it, all members call `body` with `argument`, each its own copy of
 * that function (of the program or of a library that both have loaded), with its own globals;
 * returns when all are through. `argument` is member 0's pointer, good in all members. 0 or what
 * body returned in the first member, by number, where it was not 0. -ENOENT: a member lacks the
 * library of `body`. -EDEADLK within a region. -EINVAL: not member 0. -EOWNERDEAD.
 * In a team of onespace_parallel_join the others must be in onespace_parallel_serve. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_run(struct onespace_parallel *team,
                                                      onespace_parallel_body *body, void *argument);

/* Members other than 0 of a team of onespace_parallel_join: does what member 0 says, until it calls
 * onespace_parallel_dismiss. -EINVAL: by member 0, or another program runs there. -EOWNERDEAD. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_serve(struct onespace_parallel *team);

/* Member 0: lets those that serve return. For teams of onespace_parallel_join; -EINVAL for others
 * and by other members, -EDEADLK within a region, -EOWNERDEAD. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_dismiss(struct onespace_parallel *team);

/* ---- Work sharing ---- */

/* How a loop is shared out: one block of neighbours each; blocks of `chunk` iterations in turn;
 * blocks of `chunk`, to whoever is free. chunk > 0. */
#define ONESPACE_PARALLEL_STATIC         0L
#define ONESPACE_PARALLEL_CYCLIC(chunk)  (-(long)(chunk))
#define ONESPACE_PARALLEL_DYNAMIC(chunk) ((long)(chunk))

/* A part of a loop: the iterations from begin to end - 1. */
typedef void onespace_parallel_part(long begin, long end, void *argument);

/* Shares the iterations begin to end - 1 out; returns when all members are through. Collective; but
 * outside a region of a team of onespace_parallel_init member 0 alone calls it, and it is a region
 * of its own, as `#pragma omp parallel for` is (`argument` is then member 0's, and each member runs
 * its own copy of `part`). -EOWNERDEAD: iterations may be missing. -ENOENT as in
 * onespace_parallel_run. */
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

/* Combines the members' `count` values, element by element and in the order of the members' numbers
 * (so that a sum of doubles is the same each time); all get the result in place. Collective, with
 * the same count, type and operation. -EINVAL: no such type or operation. -EDEADLK, -EOWNERDEAD
 * (the values are then undefined). */
ONESPACE_API ONESPACE_CHECK int
onespace_parallel_reduce(struct onespace_parallel *team, void *values, size_t count,
                         enum onespace_parallel_type type,
                         enum onespace_parallel_operation operation);

/* into[i] becomes the combination of into[i] and from[i], for `count` elements. */
typedef void onespace_parallel_combine_function(void *into, const void *from, size_t count);

/* The same with a function of the caller's, for elements of `size` bytes. Each member combines some
 * elements, with its own copy of the function. */
ONESPACE_API ONESPACE_CHECK int
onespace_parallel_combine(struct onespace_parallel *team, void *values, size_t count, size_t size,
                          onespace_parallel_combine_function *combine);

/* ---- Shared instances ---- */

/* The team's one instance of that name: `size` bytes at the same address for all members, all zero
 * at first, aligned to a page. Whoever asks first makes it; it stays until the team is given back.
 * Not collective; may be called at any time. -EEXIST: it has another size. -ENAMETOOLONG, -EINVAL
 * (empty name, size 0), -ENOSPC (ONESPACE_PARALLEL_SHARED_MAX instances), -ENOMEM, -EOWNERDEAD. */
ONESPACE_API ONESPACE_CHECK int onespace_parallel_shared(struct onespace_parallel *team,
                                                         const char *name, size_t size,
                                                         void **address);

#ifdef __cplusplus
}
#endif
#endif
