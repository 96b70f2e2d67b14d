/* bench/lib/crew.h: the same work by N threads, by N tasks of a space, or by N forked processes.
 *
 * The program defines crew_work() and calls crew_enter() first in main, crew_start() with a block
 * of memory that all workers see, and crew_end(). Workers communicate through the block only: a
 * task has its own globals, like a process. Any failure is reported on standard error and ends the
 * program with status 1. */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum crew_kind { CREW_THREADS, CREW_TASKS, CREW_PROCESSES, CREW_KINDS };

enum { CREW_MAX = 256 };

/* At the head of every block. */
struct crew {
    enum crew_kind kind;
    int count, leader; /* leader: process id of the program that started them */
    /* Arrivals at the current barrier. Incremented by everybody, reset by the last to arrive, which
     * alone has seen all. Ordered by `barriers`. */
    _Atomic uint32_t arrived;
    /* Barriers completed, a futex word. Written by the last to arrive (release), read by the
     * waiters (acquire): what anybody wrote before the barrier is visible to all after it. */
    _Atomic uint32_t barriers;
};

/* Defined by the program: the work of worker `number` (from 0). */
void crew_work(int number, struct crew *crew);

/* In a task of a crew: does its work and exits. Otherwise returns. */
void crew_enter(int argc, char **argv);

/* The kind of that name (threads, tasks, processes), or CREW_KINDS. */
enum crew_kind crew_kind_of(const char *name);

/* Zeroed memory of `size` bytes, a struct crew at its head, that workers of every kind see.
 * It stays until the program ends. */
void *crew_block(size_t size);

/* Starts `count` workers, at most CREW_MAX. */
void crew_start(enum crew_kind kind, int count, struct crew *crew);
/* Waits for all workers of the last crew_start. */
void crew_end(void);
/* The process id of a worker; for a thread, that of the program. */
int crew_pid(int number);

/* A barrier of all workers and the program. Ends the program if a worker has ended instead of
 * arriving. */
void crew_barrier(struct crew *crew);

/* Binds the calling worker to a CPU: round robin by worker number. */
void crew_bind(int number);

/* Says what failed and ends the program. */
void crew_fail(const char *what, int error) __attribute__((noreturn));

#endif
