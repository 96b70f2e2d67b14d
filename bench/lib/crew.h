/* bench/lib/crew.h: the same work by N threads, by N tasks of a space, or by N forked processes.
 *
 * The program defines crew_work() and calls crew_enter() first in main, crew_start() with a block
 * of memory that all workers see, and crew_end(). Workers find one another through the block alone:
 * a task has globals of its own, as a process has. Whatever fails is said on standard error and
 * ends the program with status 1. */
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
    /* How many have come to the meeting. Everybody adds; the last to come, who alone has seen all,
     * sets it back. Ordered by `meetings`. */
    _Atomic uint32_t arrived;
    /* Meetings held, a futex word. Written by the last to come (release), read by those who wait
     * (acquire): what anybody did before is seen by all after. */
    _Atomic uint32_t meetings;
};

/* The program's own: what worker `number` (from 0) does. */
void crew_work(int number, struct crew *crew);

/* Returns unless this is a task of a crew: it does its work here, and the program ends. */
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
/* The process id of a worker; of a thread that of the program. */
int crew_pid(int number);

/* All workers and the program meet: what was written before is seen after. Ends the program when a
 * worker has ended instead. */
void crew_meet(struct crew *crew);

/* Binds the calling worker to the processor that its number falls to, round robin. */
void crew_bind(int number);

/* Says what failed and ends the program. */
void crew_fail(const char *what, int error) __attribute__((noreturn));

#endif
