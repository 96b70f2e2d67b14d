/* src/registry/space.h: the registry of a space, in memory that all members see.
 *
 * Every program in the space may carry its own copy of the library, so everything here crosses
 * programs: the layout is part of the ABI and asserted in abi.c. A task may be killed between any
 * two instructions; therefore nothing here is locked across programs. Each word has one writer, or
 * is changed by compare-and-swap only, and the reaper, which reaps every task, finishes or undoes
 * what a dead task left half done. */
#ifndef ONESPACE_REGISTRY_SPACE_H
#define ONESPACE_REGISTRY_SPACE_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/shared_header.h"
#include "registry/exports.h"
#include "registry/files.h"
#include "registry/guard.h"
#include "registry/layout.h"
#include "registry/operations.h"
#include "registry/shared.h"
#include "registry/slot.h"
#include "registry/statistics.h"

#define SPACE_MAGIC UINT64_C(0x65636170736e6f31) /* "1onspace" */
#define SPACE_ABI   10u

/* Types of auxiliary vector entries that carry the registry's and the slot's address to a task's
 * agent and library. Outside the kernel's range; inherited by nothing. */
#define SPACE_AT_REGISTRY 0x6f6e6501ul
#define SPACE_AT_SLOT     0x6f6e6502ul

enum { SPACE_LIMITS = 16, SPACE_LIBRARY = 256 };
enum { SPACE_OWN_PAGES = 64 * 1024 }; /* the largest page of any CPU */

enum { SPACE_HOLDS_IMPORTS = 0xffff, SPACE_HOLDS_COPY = 1 << 16 }; /* of a word of `holds` */

/* The first task that left the space by executing another program: for the message that says so
 * once. By the task: EMPTY -> FILLING, as the only one; -> READY with release, which pairs with the
 * root's acquire; -> EMPTY when execve failed. */
struct space_departure {
    _Atomic uint32_t state; /* enum file_state */
    int32_t id;
    char path[SPACE_PROGRAM_MAX]; /* as execve got it; truncated */
};

struct space {
    struct shared_header header;
    char library[SPACE_LIBRARY]; /* file of the root's library, for messages */
    struct space_operations operations;
    struct space_unwind unwind;
    int32_t root_pid;
    _Atomic int32_t reaper_pid;
    uint64_t created_ns;
    _Alignas(64) _Atomic uint32_t events; /* futex the reaper sleeps on; bumped to wake it */
    _Atomic uint32_t departures;          /* tasks that entered execve so far */
    _Atomic uint32_t reaper_word;         /* robust futex of the reaper, as `member` of a slot */
    _Atomic uint32_t closing;             /* onespace_fini asks the reaper to end */
    _Atomic uint32_t had_threads;         /* sticky: a task in thread mode was made */
    _Atomic uint32_t holds_pending;       /* reaper: memory of an ended task is still held */
    _Atomic uint32_t holds_changed;       /* a hold on an ended task's memory was released */
    _Atomic int32_t requests;             /* newest slot whose child the reaper is to make, or -1 */
    /* For ps, by the thread of space/unmapper.h: its TID; what it unmaps (`first` of the run: a
     * slot, or a channel), or 0, and since when (CLOCK_MONOTONIC). */
    _Atomic int32_t unmapper_tid;
    _Atomic uint32_t unmapping;
    _Atomic uint64_t unmapping_since_ns;
    _Alignas(64) _Atomic uint32_t free_hint; /* a free slot is likely here or above */
    _Alignas(64) _Atomic uint32_t ends;      /* futex: bumped at every end of a task */
    _Alignas(64) _Atomic uint32_t names;     /* futex: bumped at every export and every end */
    _Alignas(64) _Atomic uint32_t map_turn;  /* futex: who may change the map; space/turns.c */
    _Alignas(64) _Atomic uint64_t barrier;   /* space/group.h has this word and the three below */
    _Atomic uint64_t group;                  /* by spawners, by compare-and-swap */
    _Atomic uint64_t group_loaded;           /* members whose libraries are loaded, as `barrier` */
    /* Id of the last group in which each number was started; by spawners, in group_join. */
    _Atomic uint32_t group_started[LAYOUT_SLOTS];
    char name[64];                             /* of the job, for ps */
    uint64_t fence_low, fence_high;            /* the page behind the program break */
    uint64_t reaper_ignored;                   /* signals that a child of the reaper has ignored */
    struct rlimit reaper_limits[SPACE_LIMITS]; /* which such a child has, too */
    uintptr_t trampoline_page; /* of tasks without a loader image, mapped once in each */
    /* Calls of tasks that failed because the space had no mappings left. Relaxed, by any task's
     * threads; the root that sees it change looks whether the space recovers. */
    _Atomic uint32_t mappings_exhausted;
    /* The two ends of the chain that debuggers follow (space/debugger.h). While `onespace gdb` runs
     * it sets the head's `version` below SPACE_NAMESPACES, which hides what follows. */
    struct space_namespace debug_head, debug_tail;
    _Atomic uint32_t debug_linked;   /* the entries of the slots up to this one are linked */
    _Atomic uint32_t highest;        /* no slot above this index was ever used */
    _Atomic uint32_t insitu;         /* sticky: the table of channels is mapped; insitu/channel.h */
    _Atomic uint32_t calls;          /* sticky: the table of lenders is mapped; registry/calls.h */
    _Atomic uint32_t oversubscribed; /* there are more tasks than CPUs for them: a hint */
    struct space_guard guard;
    struct space_overflows overflows;
    struct space_cpuid cpuids[SPACE_CPUIDS];
    struct space_file files[SPACE_FILES];
    struct space_cache cache;
    struct space_departure departure;
    /* The number of entries that a search for a name must look at, by its first entry. Only raised,
     * by compare-and-swap, before the name that needs it is LIVE. */
    _Atomic uint16_t export_reach[SPACE_EXPORTS];
    struct space_export exports[SPACE_EXPORTS];
    struct space_shared shared;
    char xpmem_library[SPACE_XPMEM_PATH]; /* what tasks get for libxpmem.so.0; empty: none */
    /* Slot of a process that has made or got something through XPMEM; true while pids[] agrees. */
    _Atomic uint16_t xpmem_slots[SPACE_PIDS];
    /* [owner][holder]: imports, above them (SPACE_HOLDS_COPY) copies under way. */
    _Atomic uint32_t holds[LAYOUT_SLOTS][LAYOUT_SLOTS];
    struct space_slot slots[LAYOUT_SLOTS];
    /* pid of each slot's process while it is to be reaped, else 0: dense, for searches. In thread
     * mode the main thread's TID until the task has ended. In pages of their own, which no fork
     * makes read-only, and which are zero in a forked child (runtime/mappings.c): the kernel stores
     * a pid here for a spawner that may be killed meanwhile. */
    _Alignas(SPACE_OWN_PAGES) _Atomic int32_t pids[LAYOUT_SLOTS];
};

static_assert(sizeof(struct space) < LAYOUT_GIB, "below the mark");

/* What a program of this version writes there. */
struct shared_header space_header(void);
/* Whether the registry is of this version; if not, says so on stderr, with both sides: `file` is
 * the caller's library. NULL for `file`: says nothing. Freestanding. */
int space_is_ours(const struct space *space, const char *file);

static inline struct space *space_registry(void)
{
    return (struct space *)LAYOUT_REGISTRY;
}

static inline unsigned space_index(int32_t id)
{
    return (uint32_t)id % LAYOUT_SLOTS;
}

static inline unsigned space_slot_index(const struct space *space, const struct space_slot *slot)
{
    return (unsigned)(slot - space->slots);
}

/* Whether this address space is the space's and not a forked copy of it: the kernel wipes the mark
 * in a forked child. */
static inline int space_marked(void)
{
    return *(const volatile uint32_t *)LAYOUT_MARK != 0;
}

#endif
