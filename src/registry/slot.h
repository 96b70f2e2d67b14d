/* src/registry/slot.h: the record of a member: the root or a task.
 *
 * The word `state` holds the state and, while CLAIMED, the claiming member above it: one
 * compare-and-swap publishes both. While ENDED the use of the slot stands there, so that a waiter
 * whose slot was collected, reused and has ended again meanwhile does not collect the wrong task.
 *
 * Transitions of a slot, and who makes them:
 *
 *   FREE -> CLAIMED           a spawner, by compare-and-swap
 *   CLAIMED -> STARTING       the spawner (a task) or the reaper (for the root), right before clone
 *   CLAIMED, STARTING -> FREE the spawner, if clone failed; or the reaper, if the spawner died
 *                             before clone (through BROKEN, while it unmaps the memory)
 *   STARTING -> RUNNING       the child itself, right before it enters its program
 *   RUNNING -> LEFT           the reaper: the task has executed another program; its process lives
 *   STARTING, RUNNING, LEFT -> ENDED
 *                             the reaper: reaped, and the status can be collected
 *   ENDED -> COLLECTED        a waiter, by compare-and-swap (the reaper, if nobody will wait)
 *   COLLECTED -> FREE         the collector or the reaper, whichever comes last, when the memory is
 *                             unmapped (through BROKEN); or the reaper, if the collector died
 *                             before that */
#ifndef ONESPACE_REGISTRY_SLOT_H
#define ONESPACE_REGISTRY_SLOT_H

#include <stdatomic.h>
#include <stdint.h>

#include "onespace.h"
#include "registry/debugger.h"
#include "registry/interpose.h"
#include "registry/layout.h"
#include "registry/robust.h"
#include "registry/statistics.h"
#include "registry/xpmem.h"

enum slot_state {
    SLOT_FREE,
    SLOT_CLAIMED,
    SLOT_STARTING,
    SLOT_RUNNING,
    SLOT_LEFT,
    SLOT_ENDED,
    SLOT_COLLECTED,
    SLOT_BROKEN,
    SLOT_EXITED = 0x100,    /* in `exited` */
    SLOT_STATE_MASK = 0xff, /* above it, while CLAIMED, the index of the spawner's slot */
    SLOT_STATE_BITS = 8,    /* and while ENDED the use of the slot: id / slots */
};

enum memory_state {
    MEMORY_NONE,    /* nothing mapped */
    MEMORY_PRESENT, /* the task's, or an ended task's that is still held */
    MEMORY_GOING,   /* it is being unmapped (space/unmapper.h): new holds fail */
    MEMORY_STUCK,   /* some of it cannot be unmapped: the slot is never used again */
    MEMORY_ASKED,   /* the reaper looks whether it is held, and then it is PRESENT or GOING */
};

enum { SPACE_PROGRAM_MAX = 256 };

struct space_slot {
    _Alignas(64) _Atomic uint32_t state; /* enum slot_state */
    _Atomic int32_t id;      /* unique while the space lives; slot index = id mod slots */
    _Atomic uint32_t ended;  /* the futex of onespace_watch; reaper: 0 -> 1 */
    _Atomic uint32_t memory; /* enum memory_state; see holds.c for its order with holds */
    _Atomic int32_t pid;
    /* The reaper sets it before it looks whether the memory is held: who releases the last hold
     * reads it and tells the reaper. */
    _Atomic uint32_t reclaim_pending;
    /* Blocks that other tasks have freed, linked through their first words; see agent/free.c. */
    _Atomic uintptr_t returned;
    int32_t spawner;         /* id of the member that spawned it */
    _Atomic uint32_t orphan; /* reaper: the spawner has ended, the root inherits */
    uint32_t flags;          /* ONESPACE_SPAWN_* */
    int32_t number, ntasks;
    /* Id of the group that it belongs to, 0: none. By its spawner in group_join; 0 again by the
     * reaper, or by the spawner if it could not be made. Read by all that spawn. */
    _Atomic uint32_t group;
    int32_t status;           /* wait status, valid from ENDED on */
    _Atomic uint32_t leaving; /* its threads that are in execve; by its exec hook */
    /* Thread mode: SLOT_EXITED | the status it gave; written once, by whichever of its threads
     * calls exit first, with release; read by the reaper with acquire. */
    _Atomic uint32_t exited;
    uint32_t sweeps; /* reaper: how often it looked and could not tell all threads' owners */
    _Atomic int32_t child_result; /* futex: 0, 1 entered its program, or -errno; by the child */
    _Atomic int32_t child_stage;
    /* Futex: 1 when its libraries are loaded. Written with release by the task's agent, or by the
     * spawner where there is no agent. */
    _Atomic uint32_t loaded;
    _Atomic int32_t next_request; /* the reaper's request list: slot index of the next, -1 end */
    /* Sticky: let the reaper skip tables. Set before the first entry of each. */
    _Atomic uint32_t has_exported, has_spawned, has_imported, was_imported, has_shared;
    /* Sticky, by callers: other members' threads have run in its context (registry/calls.h). */
    _Atomic uint32_t was_called;
    /* The program called exit or returned from main; by the task's agent, relaxed: read when the
     * task has been reaped. The spawner sets it where there is no agent to tell. */
    _Atomic uint32_t called_exit;
    uint64_t started_ns; /* CLOCK_MONOTONIC */
    uint64_t user_us, system_us;
    uintptr_t stack_low, stack_high;
    uintptr_t link_map;            /* the root's: first of its link maps */
    uintptr_t interpreter_bias;    /* of its ld.so, or of itself when static */
    uintptr_t interpreter_dynamic; /* address of the ld.so's PT_DYNAMIC */
    uintptr_t child_record;
    struct space_robust robust;
    struct space_debug debug;
    struct space_xpmem xpmem;
    /* Guard mode: the key of its memory, 0: not guarded; what its threads may do, as PKRU has it.
     * By the spawner, before there is a kernel task. */
    uint32_t guard_key, guard_rights;
    char program[SPACE_PROGRAM_MAX]; /* real path, truncated at the front if longer */
    struct space_stats stats;
    struct space_interpose interpose;
};

/* Whether a task in this state is in the space: its program runs or is about to. */
static inline int slot_is_alive(uint32_t state)
{
    return state == SLOT_STARTING || state == SLOT_RUNNING;
}

static inline uint32_t space_state(const struct space_slot *slot)
{
    return atomic_load_explicit(&slot->state, memory_order_acquire) & SLOT_STATE_MASK;
}

/* The word `state` of an ended task with that id. */
static inline uint32_t slot_ended(int32_t id)
{
    return SLOT_ENDED | (uint32_t)id / LAYOUT_SLOTS << SLOT_STATE_BITS;
}

/* Whether the slot's task is a thread of another member's process. */
static inline int space_is_thread(const struct space_slot *slot)
{
    return (slot->flags & ONESPACE_SPAWN_THREAD) != 0;
}

#endif
