/* bench/lib/workers.h: the same work by N threads, by N tasks of a space, or by N forked processes.
 *
 * The program defines worker_run() and calls workers_enter() first in main, workers_start() with a
 * block of memory that all workers see, and workers_join(). Workers communicate through the block
 * only: a task has its own globals, like a process. Any failure is reported on standard error and
 * ends the program with status 1. */
#ifndef BENCH_WORKERS_H
#define BENCH_WORKERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum worker_kind { WORKER_THREADS, WORKER_TASKS, WORKER_PROCESSES, WORKER_KINDS };

enum { WORKERS_MAX = 256 };

/* At the head of every block. */
struct workers {
    enum worker_kind kind;
    int count, parent; /* parent: process id of the program that started them */
    /* Arrivals at the current barrier. Incremented by each worker, reset by the last to arrive.
     * Ordered by `barriers`. */
    _Atomic uint32_t arrived;
    /* Barriers completed, a futex word. Written by the last to arrive (release), read by the
     * waiters (acquire): stores before the barrier are visible to all after it. */
    _Atomic uint32_t barriers;
};

/* Defined by the program: the work of worker `number` (from 0). */
void worker_run(int number, struct workers *workers);

/* In a task started by workers_start(): does its work and exits. Otherwise returns. */
void workers_enter(int argc, char **argv);

/* The kind of that name (threads, tasks, processes), or WORKER_KINDS. */
enum worker_kind worker_kind_by_name(const char *name);

/* Zeroed memory of `size` bytes, a struct workers at its head, that workers of every kind see.
 * It stays until the program ends. */
void *workers_allocate(size_t size);

/* Starts `count` workers, at most WORKERS_MAX. */
void workers_start(enum worker_kind kind, int count, struct workers *workers);
/* Waits for all workers of the last workers_start. */
void workers_join(void);
/* The process id of a worker; for a thread, that of the program. */
int worker_pid(int number);

/* A barrier of all workers and the program. Ends the program if a worker has ended instead of
 * arriving. */
void workers_barrier(struct workers *workers);

/* Binds the calling worker to a CPU: round robin by worker number. */
void worker_bind(int number);

/* Prints what failed and exits with 1. */
void worker_fail(const char *what, int error) __attribute__((noreturn));

#endif
