/* src/parallel/team.h: a team of tasks: the block that its members share, and each member's handle.
 *
 * The block lies in member 0's memory. Every member holds the memory of all others by imports.
 * Members may be killed at any instruction. Nothing is repaired then: waiters check from time to
 * time that all members live. The first that finds a dead one sets `lost`, and every wait ends with
 * -EOWNERDEAD. So a dead member's lock or unfinished arrival does no harm. */
#ifndef ONESPACE_PARALLEL_TEAM_H
#define ONESPACE_PARALLEL_TEAM_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shared_header.h"
#include "onespace/parallel.h"

#define TEAM_MAGIC UINT64_C(0x6d616574316f6e65)
#define TEAM_NAME                                                                                  \
    "onespace.parallel" /* prefix of exports; the kind and number of the team follow */

enum { TEAM_SMALL = 64, TEAM_EXPORT_NAME = 48 };

enum { TEAM_BROKEN = 1, TEAM_GENERATION = 2 }; /* of team_block.generation: a flag, a step */

#define TEAM_LEFT (-1) /* instead of an id: the member no longer uses the block */

/* The work of the other members between two barriers. Member 0 writes it before the first one. */
enum team_order { ORDER_BODY, ORDER_LOOP, ORDER_DISMISS };

/* A function, for members that have loaded the same file at another address. */
struct team_function {
    const char *object; /* the library's name in member 0's link map; NULL: the program */
    uintptr_t offset;   /* from its load address */
};

struct team_loop {
    long begin, end, schedule;
    onespace_parallel_part *part;
    void *argument;
};

struct team_region {
    enum team_order order;
    struct team_function function;
    struct team_loop loop; /* of ORDER_LOOP; `part` is member 0's */
    void *argument;
};

struct team_member {
    /* The task's id + 1; 0: it has not joined yet. Written by the member with release: before its
     * first arrival, and as TEAM_LEFT when it has left. Read with acquire by members that check
     * that it lives, and by member 0 before it unmaps the block. */
    _Alignas(64) _Atomic int32_t id;
    /* Only the member writes the following, between two barriers, which order the accesses. */
    int result;                             /* of the region */
    char *values;                           /* of a large reduction */
    _Alignas(64) char small[2][TEAM_SMALL]; /* of small ones, alternating */
};

/* Written under the block's lock; `address` with release, last, and read with acquire. */
struct team_instance {
    char name[ONESPACE_PARALLEL_NAME_MAX + 1];
    size_t size;
    int owner; /* number in the team */
    _Atomic uintptr_t address;
};

struct team_block {
    struct shared_header header; /* size: without members */
    uint32_t count;
    int first; /* member 0's number among the tasks started together; -1: a spawned team */
    char export_name[TEAM_EXPORT_NAME];
    _Atomic uint32_t workers; /* numbers assigned to spawned tasks so far */
    /* Number + 1 of a member that has ended or could not enter. Set by any member, by
     * compare-and-swap from 0; sticky. */
    _Atomic uint32_t lost;
    /* The barrier. `arrived` counts; the last member sets it and `next_chunk` to 0 and then
     * adds TEAM_GENERATION to `generation` (sequentially consistent, as are the waiters' loads:
     * after a wait a member sees everything written before any arrival). A member that has seen
     * `lost` sets TEAM_BROKEN in it, which changes the word that members sleep on. Both are
     * read-modify-writes. */
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) _Atomic uint32_t generation; /* futex */
    /* A sleeper increments `sleepers` and then reads `generation`; the last member changes
     * `generation` and then reads `sleepers`: at least one sees the other. After a
     * sleeper is killed it stays too high, which costs only system calls. */
    _Atomic uint32_t sleepers;
    _Alignas(64) _Atomic unsigned long next_chunk; /* of a dynamic loop; members add 1, relaxed */
    /* Written by member 0 before the barrier that forks; read by the others after it. */
    _Alignas(64) struct team_region region;
    /* Number + 1 of the member that changes instances[]: set by compare-and-swap from 0 (acquire),
     * reset to 0 by the same member (release). */
    _Atomic uint32_t lock;
    struct team_instance instances[ONESPACE_PARALLEL_SHARED_MAX];
    struct team_member members[];
};
static_assert(sizeof(struct team_member) == 192, "ABI 2: members may bring their own library");
static_assert(offsetof(struct team_block, instances) == 400, "ABI 2");
static_assert(sizeof(struct team_instance) == 72, "ABI 2");

struct onespace_parallel {
    struct team_block *block;
    size_t block_bytes;          /* member 0: of the mapping */
    int number, count, owner_id; /* the last: of member 0 */
    int is_spawned;              /* onespace_parallel_init has spawned the other members */
    int is_inside;               /* a region */
    int is_oversubscribed;       /* more tasks than CPUs: do not spin */
    int created_space;           /* onespace_parallel_init has created the space */
    int *worker_ids;             /* ids of the spawned tasks, in order of spawning, from 1 on */
    unsigned reductions;         /* small ones so far */
    int held[];                  /* by number: the member whose memory this one holds, or 0 */
};

/* ---- team.c ---- */
/* Allocates a handle, and a block if `block` is NULL (then the caller is member 0). NULL: out of
 * memory. */
struct onespace_parallel *team_new(int count, int number, struct team_block *block);
/* Frees what team_new has allocated. */
void team_free(struct onespace_parallel *team);
/* 0, or -EINVAL if the block was made by a library with another ABI. */
int team_check_block(const struct team_block *block);
/* Registers the caller, so that others can hold its memory. */
int team_enter(struct onespace_parallel *team);
/* Waits until all have entered, holds their memory and determines whether to spin. */
int team_synchronize(struct onespace_parallel *team);
/* Releases the caller's export, instances and holds, and frees the handle. */
void team_leave(struct onespace_parallel *team);
/* Checks that the caller may enter a barrier: 0, -EPERM outside the space, -EOWNERDEAD in a broken
 * team, -EDEADLK if the others wait for the next region. */
int team_check_barrier(const struct onespace_parallel *team);

/* ---- spawned_team.c ---- */
/* Dismisses the spawned tasks and waits until they end. In a broken team it kills those that do not
 * end in time. */
void team_end_workers(struct onespace_parallel *team);

/* ---- barrier.c ---- */
int team_barrier(struct onespace_parallel *team);
/* Checks that all members live. If not, sets `lost`, wakes all sleepers and returns -EOWNERDEAD. */
int team_check_lost(struct onespace_parallel *team);
/* Sets `lost` to this member, unless it is set, and wakes all sleepers. */
void team_break(struct team_block *block, int number);
/* Returns whether the task has ended or executed another program. */
int member_has_ended(int id);
/* Sets is_oversubscribed. Precondition: all members have joined. */
void team_set_oversubscribed(struct onespace_parallel *team);

/* ---- region.c ---- */
int team_serve(struct onespace_parallel *team);
/* Member 0 publishes the region, runs its own part and waits for the others. */
int team_fork(struct onespace_parallel *team, const struct team_region *region);

#endif
