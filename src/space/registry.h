/* src/space/registry.h: the registry of a space, in memory that all members see.
 *
 * Every program in the space may carry its own copy of the library, so everything here crosses
 * programs; the header of the registry has the ABI tag of the build (base/shared_header.h). A task
 * may be killed between any two instructions, so no state here depends on a lock that a dead task
 * may hold (map_throttle only orders calls, and is taken over). Each word has one writer, or is
 * changed by one atomic operation, and the reaper completes or undoes what a dead task left half
 * done. */
#ifndef ONESPACE_SPACE_REGISTRY_H
#define ONESPACE_SPACE_REGISTRY_H

#include <assert.h>
#include <linux/limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/shared_header.h"
#include "onespace.h"
#include "policy/policy.h"
#include "space/interposition.h"
#include "space/layout.h"
#include "space/registrations.h"
#include "space/shared_mappings.h"
#include "space/shm.h"

/* ---- Parts of a slot ---- */

/* The membership mark: a robust futex of the task's main thread, linked into its libc's own list by
 * the agent. The kernel sets FUTEX_OWNER_DIED in the word when that thread ends or the task
 * executes another program. The distance from `next` to the word is the libc's (glibc 32 bytes,
 * musl 28), hence the array. */
struct space_robust {
    _Atomic uint32_t words[14]; /* words[at] is TID | FUTEX_WAITERS */
    uintptr_t previous, next;   /* of the list: addresses of `next` fields, as both libcs have it */
    _Atomic uint32_t at;        /* index of the word + 1; 0: no agent */
    uint32_t unused;
};

static_assert(offsetof(struct space_robust, previous) == 56, "next - 8, as both libcs have it");

/* The entries of a member in the chain that debuggers follow (space/member.c). The layouts are
 * those of struct r_debug_extended and struct link_map in glibc's link.h (2.35 and later). */
struct space_namespace {
    int32_t version; /* SPACE_NAMESPACES: `next` is there */
    int32_t unused;
    /* The first link map, 0: none. Written by the task and cleared by the reaper, with release. */
    _Atomic uintptr_t maps;
    uintptr_t brk, state, loader;
    _Atomic uintptr_t next; /* set once, by compare-and-swap; the tail's by the root's ld.so */
};
#define SPACE_NAMESPACES 2
struct space_link_map {
    uintptr_t bias;
    const char *name;
    uintptr_t dynamic, next, previous;
};
struct space_debug {
    struct space_namespace program, libraries;
    struct space_link_map map; /* of the program */
};

static_assert(sizeof(struct space_namespace) == 48, "as ld.so has it");

enum { SPACE_EXPORTS = 16384, SPACE_EXPORT_NAME = 96 };

/* An exported name. The owner's threads write it, all members read it (space/exports.c). */
enum export_state { EXPORT_FREE, EXPORT_CLAIMED, EXPORT_LIVE };
enum { EXPORT_KIND_MASK = 0xff, EXPORT_SLOT_SHIFT = 8, EXPORT_USE_SHIFT = 32 };
struct space_export {
    /* enum export_state, above it the owner's slot, above that how often the entry was used:
     * FREE -> CLAIMED (compare-and-swap) -> LIVE -> FREE, by the owner, or by the reaper to FREE
     * when the owner is dead. */
    _Atomic uint64_t state;
    _Atomic int32_t owner; /* id */
    _Atomic uint32_t hash;
    _Atomic uintptr_t address;
    _Atomic uint64_t size;
    _Atomic char name[SPACE_EXPORT_NAME];
};

static_assert(SPACE_EXPORTS <= UINT16_MAX, "a search may reach all entries");

/* Statistics of the drop-ins, for --stats and ps. Relaxed counters, written by the task. */
struct space_stats {
    _Atomic uint64_t cma_calls, cma_bytes; /* copied in user space */
    _Atomic uint64_t cma_kernel_calls;     /* passed to the system call */
    _Atomic uint64_t mpi_collectives;      /* done in the tasks' own memory */
    _Atomic uint64_t xpmem_attaches;
};

/* How often a table of the space was full. Nothing fails then; the comment names what is lost.
 * Relaxed counters, incremented by any task's threads, read by ps and the root. */
struct space_overflows {
    _Atomic uint32_t patch_sites; /* system calls that were not interposed */
    _Atomic uint32_t files;       /* files whose patch sites were not cached */
    _Atomic uint32_t cpuids;      /* cpuid instructions that were not answered from the table */
    _Atomic uint32_t mappings;    /* out-of-range mappings that stay when their task ends */
};

static inline void counter_add(_Atomic uint32_t *counter, uint32_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

/* Raises a word that only grows to at least `to`. */
static inline void word_raise(_Atomic uint32_t *word, uint32_t to)
{
    uint32_t seen = atomic_load(word);
    while (seen < to && !atomic_compare_exchange_weak(word, &seen, to))
        ;
}

enum {
    SPACE_XPMEM_PATH = PATH_MAX,
    SPACE_PIDS = 1 << 22, /* the kernel's PID_MAX_LIMIT */
};

struct space_slot;

/* A member's segments and permits of XPMEM (xpmem/entries.h). Its threads change them; the reaper
 * resets them when all threads have ended. */
struct space_xpmem_table {
    _Atomic uint64_t free;   /* free list: index + 1 of the newest, change count << 32 */
    _Atomic uint32_t used;   /* entries that were ever used */
    _Atomic uint32_t mapped; /* entries whose memory is mapped; stays so for the slot's next task */
};
struct space_xpmem {
    struct space_xpmem_table tables[2]; /* enum entry_kind */
    _Atomic uint32_t known;             /* the fields below are valid; release */
    uint32_t uid, gid, euid, egid;      /* at the first call */
};

/* XPMEM's calls: results as in xpmem.h, with -errno for failures. */
struct space_xpmem_operations {
    int64_t (*make)(struct space_slot *self, uintptr_t address, size_t size, int permit_type,
                    uintptr_t permit_value);
    long (*remove)(struct space_slot *self, int64_t segid);
    int64_t (*get)(struct space_slot *self, int64_t segid, int flags, int permit_type);
    long (*release)(struct space_slot *self, int64_t apid);
    long (*attach)(struct space_slot *self, int64_t apid, int64_t offset, size_t size,
                   uintptr_t at);
};

/* Functions of the root's copy of the library that other programs call. That copy stays mapped as
 * long as the space exists; code that runs on tasks' threads must not be unmapped with the program
 * that spawned them. */
struct space;
struct space_slot;
struct child;
struct space_operations {
    /* By the agent, once, with the first of its ld.so's link maps, or 0. */
    void (*task_loaded)(struct space_slot *self, uintptr_t link_map);
    long (*interpose)(struct space_slot *self, long nr, const long arguments[6]);
    long (*prepare)(struct space *space, struct space_slot *slot);
    long (*child_clone)(struct child *child, int as_sibling);
    struct space_xpmem_operations xpmem;
    void (*thread_exit)(struct space_slot *self, int status); /* in place of _exit: no return */
    uintptr_t (*thread_mode_handler)(void);                   /* see interpose/interpose.h */
    _Atomic uintptr_t *(*thread_mode_handler_behind)(void);
    /* By the agent (agent/registrations.c), before a call that may register memory with a device
     * and when it has succeeded: the argument of RDMA_VERBS_IOCTL; or buffers, a struct iovec each.
     */
    void (*record_verbs_call)(struct space_slot *self, const void *argument);
    void (*record_buffers)(struct space_slot *self, const void *buffers, unsigned long count);
    /* registrations_deliver, by the notifier. */
    void (*deliver)(struct space *space, struct space_slot *self,
                    void (*unmap)(uintptr_t start, uintptr_t bytes));
    void (*stop_deliveries)(struct space *space, struct space_slot *self); /* at exit */
};

/* Where the root's copy of the library has its code, for unwinders of tasks (agent/unwind.c). */
struct space_unwind {
    uintptr_t code_low, code_high;
    uintptr_t table;            /* its .eh_frame_hdr, 0: none */
    uintptr_t trampoline_frame; /* arch_trampoline_frame */
};

/* ---- The slot: the record of a member, the root or a task ----
 *
 * The word `state` holds the state and, while CLAIMED, the claiming member above it: one
 * compare-and-swap publishes both. While ENDED it holds the use of the slot there, so that a waiter
 * does not collect a later task whose slot was collected, reused and has ended again.
 *
 * Transitions of a slot, and who makes them:
 *
 *   FREE -> CLAIMED           a spawner, by compare-and-swap
 *   CLAIMED -> STARTING       the spawner (a task) or the reaper (for the root), right before clone
 *   CLAIMED, STARTING -> FREE the spawner, if clone failed; or the reaper, if the spawner died
 *                             before clone (through ABORTING, while it unmaps the memory)
 *   STARTING -> RUNNING       the child, right before it enters its program; or the reaper
 *   RUNNING -> LEFT           the reaper: the task has executed another program; its process lives
 *   STARTING, RUNNING, LEFT -> ENDED
 *                             the reaper: reaped, and the status can be collected
 *   ENDED -> COLLECTED        a waiter, by compare-and-swap (the reaper, if there is no waiter)
 *   COLLECTED -> FREE         the collector or the reaper, whichever comes last, when the memory is
 *                             unmapped (through ABORTING); or the reaper, if the collector died
 *                             before that */

enum slot_state {
    SLOT_FREE,
    SLOT_CLAIMED,
    SLOT_STARTING,
    SLOT_RUNNING,
    SLOT_LEFT,
    SLOT_ENDED,
    SLOT_COLLECTED,
    SLOT_ABORTING,
    SLOT_EXITED = 0x100,    /* in `exited` */
    SLOT_STATE_MASK = 0xff, /* above it, while CLAIMED, the index of the spawner's slot */
    SLOT_STATE_BITS = 8,    /* and while ENDED the use of the slot: id / slots */
};

enum memory_state {
    MEMORY_NONE,      /* nothing mapped */
    MEMORY_PRESENT,   /* the task's, or an ended task's that is still held */
    MEMORY_UNMAPPING, /* it is being unmapped (space/holds.c): new holds fail */
    MEMORY_STUCK,     /* some of it cannot be unmapped: the slot is never used again */
    MEMORY_CHECKING,  /* the reaper checks whether it is held; then PRESENT or UNMAPPING */
};

/* The thread of an MPI rank that makes progress in its MPI library when other ranks ask
 * (mpi/group/progress_thread.c). A task has one if `state` is not PROGRESS_THREAD_NONE. */
enum progress_thread_state { PROGRESS_THREAD_NONE, PROGRESS_THREAD_ASLEEP, PROGRESS_THREAD_WANTED };
struct space_progress_thread {
    /* A futex of the thread. NONE -> ASLEEP, WANTED -> ASLEEP: by the thread. ASLEEP -> WANTED: by
     * a rank that waits. Any -> NONE: by its process. */
    _Alignas(64) _Atomic uint32_t state;
    _Atomic int32_t tid; /* a futex; 0 before its start and after its end; by the thread */
    _Atomic int32_t cpu; /* on which it runs; by the rank that wakes it */
    /* arch_ticks() of the rank's last step; by its own threads and those that wake the thread */
    _Atomic uint64_t progressed;
};

enum { SPACE_PROGRAM_MAX = 256 };

struct space_slot {
    _Alignas(64) _Atomic uint32_t state; /* enum slot_state */
    _Atomic int32_t id;      /* repeats after 2^20 uses of the slot; slot index = id mod slots */
    _Atomic uint32_t ended;  /* the futex of onespace_watch; reaper: 0 -> 1 */
    _Atomic uint32_t memory; /* enum memory_state; see holds.c for its order with holds */
    _Atomic int32_t pid;     /* its spawner or the reaper, after clone; read by all */
    /* Set by the reaper before it checks whether the memory is held; read by the member that
     * releases the last hold, which then wakes the reaper. */
    _Atomic uint32_t reclaim_pending;
    /* Blocks that other tasks have freed, linked through their first words; see agent/free.c. */
    _Atomic uintptr_t returned;
    int32_t spawner;                    /* id of the member that spawned it */
    _Atomic uint32_t spawner_has_ended; /* reaper: the status will be discarded */
    uint32_t flags;                     /* ONESPACE_SPAWN_* */
    int32_t number, ntasks;
    /* Id of its group, or 0. Written by its spawner in group_join, cleared by the reaper, or by a
     * spawner that could not make the task. Read by all spawners. */
    _Atomic uint32_t group;
    int32_t status;           /* wait status, valid from ENDED on */
    _Atomic uint32_t leaving; /* number of its threads in execve; by interpose/process.c */
    /* Thread mode: SLOT_EXITED | the exit status. Written once, with release, by the first of its
     * threads that calls exit; read by the reaper with acquire. */
    _Atomic uint32_t exited;
    uint32_t incomplete_scans;    /* reaper: in a row, without a thread of this task */
    _Atomic int32_t child_result; /* futex: 0, 1 entered its program, or -errno; by the child */
    /* enum child_stage of a failure: the child or the reaper writes it, its spawner reads it. */
    _Atomic int32_t child_stage;
    /* Futex: 1 when its libraries are loaded. Written with release by the task's agent, or by the
     * spawner where there is no agent. */
    _Atomic uint32_t loaded;
    _Atomic int32_t next_request; /* the reaper's request list: slot index of the next, -1 end */
    /* Sticky: let the reaper skip tables. Set before the first entry of each. */
    _Atomic uint32_t has_exported, has_spawned, has_held, was_held, has_shared;
    /* Sticky, by callers: other members' threads have run in its context
     * (remote_call/remote_call.h). */
    _Atomic uint32_t was_called;
    /* The program called exit or returned from main. Written by the task's agent, or by the spawner
     * where there is no agent; relaxed, because it is read when the task has been reaped. */
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
    /* Guard mode: the protection key of its memory, or 0; the rights of its threads, as in PKRU.
     * Written by the spawner, before there is a kernel task. */
    uint32_t guard_key, guard_rights;
    char program[SPACE_PROGRAM_MAX]; /* real path, truncated at the front if longer */
    struct space_registrations registrations;
    struct space_progress_thread progress_thread;
    struct space_stats stats;
    struct space_interpose interpose;
};

/* Whether a task in this state is a member: its program runs or is about to. */
static inline int slot_is_alive(uint32_t state)
{
    return state == SLOT_STARTING || state == SLOT_RUNNING;
}

static inline uint32_t slot_state(const struct space_slot *slot)
{
    return atomic_load_explicit(&slot->state, memory_order_acquire) & SLOT_STATE_MASK;
}

/* The word `state` of an ended task with that id. */
static inline uint32_t slot_ended(int32_t id)
{
    return SLOT_ENDED | (uint32_t)id / LAYOUT_SLOTS << SLOT_STATE_BITS;
}

/* Whether the slot's task is a thread of another member's process. */
static inline int slot_is_thread(const struct space_slot *slot)
{
    return (slot->flags & ONESPACE_SPAWN_THREAD) != 0;
}

/* ---- The space ---- */

#define SPACE_MAGIC UINT64_C(0x65636170736e6f31) /* "1onspace" */

/* Types of auxiliary vector entries that carry the registry's and the slot's address to a task's
 * agent and library. Outside the kernel's range; inherited by nothing. */
#define SPACE_AT_REGISTRY 0x6f6e6501ul
#define SPACE_AT_SLOT     0x6f6e6502ul

enum { SPACE_LIMITS = 16, SPACE_LIBRARY = 256 };
enum { SPACE_OWN_PAGES = 64 * 1024 }; /* the largest page of any CPU */

enum { SPACE_HOLDS_IMPORTS = 0xffff, SPACE_HOLDS_COPY = 1 << 16 }; /* of a word of `holds` */

/* The first task that left the space by executing another program, for a message that is printed
 * once. Written by the task: EMPTY -> FILLING by compare-and-swap; -> READY with release, which
 * pairs with the root's acquire; -> EMPTY when execve failed. */
struct space_departure {
    _Atomic uint32_t state; /* enum file_state */
    int32_t id;
    char path[SPACE_PROGRAM_MAX]; /* the argument of execve, truncated */
};

/* Changes of holds on the memory of ended tasks. A member that releases one stores CHANGED. The
 * reaper exchanges that for SEEN, looks whose memory goes, and exchanges SEEN for UNCHANGED. */
enum holds_state { HOLDS_UNCHANGED, HOLDS_CHANGED, HOLDS_SEEN };

struct space {
    struct shared_header header;
    char library[SPACE_LIBRARY]; /* file of the root's library, for messages */
    struct space_operations operations;
    struct space_unwind unwind;
    int32_t root_pid;
    _Atomic int32_t reaper_pid;
    uint64_t created_ns;
    _Alignas(
        64) _Atomic uint32_t events; /* futex that the reaper sleeps on; incremented to wake it */
    _Atomic uint32_t departures;     /* number of calls of execve so far */
    _Atomic uint32_t reaper_word;    /* robust futex of the reaper */
    _Atomic uint32_t closing;        /* onespace_fini asks the reaper to end */
    _Atomic uint32_t had_threads;    /* sticky: a task in thread mode was made */
    _Atomic uint32_t holds_pending;  /* reaper: memory of an ended task is still held */
    _Atomic uint32_t holds_changed;  /* enum holds_state */
    /* The newest slot whose child must be cloned, or -1: a futex, if there is a thread that clones
     * (reaper/reaper.c). */
    _Atomic int32_t requests;
    _Atomic uint32_t has_cloner;
    /* For ps, written by the unmapper (space/holds.c): what it unmaps (`first` of the job: a slot
     * or a channel) or 0; and since when (CLOCK_MONOTONIC). */
    _Atomic uint32_t unmapping;
    _Atomic uint64_t unmapping_since_ns;
    _Alignas(64) _Atomic uint32_t free_hint; /* a free slot is likely here or above */
    _Alignas(64) _Atomic uint32_t ends;      /* futex: incremented when a task ends */
    _Alignas(64) _Atomic uint32_t names;     /* futex: incremented by exports and ends of tasks */
    _Alignas(64) _Atomic uint32_t map_throttle; /* futex: holder of the throttle; space/locks.c */
    _Alignas(64) _Atomic uint64_t barrier; /* this word and the next three: space/member_group.c */
    _Atomic uint64_t group;                /* by spawners, by compare-and-swap */
    _Atomic uint64_t group_loaded;         /* members whose libraries are loaded, as `barrier` */
    /* Id of the last group in which each number was started; by spawners, in group_join. */
    _Atomic uint32_t group_started[LAYOUT_SLOTS];
    /* For each slot: the number of its task's end, in the order of ends, or 0. Written by the
     * reaper with release, before `state`; read with acquire by those who wait for any task.
     * Cleared by a claim of the slot, or by who has collected the status. */
    _Atomic uint32_t end_order[LAYOUT_SLOTS];
    uint32_t end_count;                        /* the reaper's */
    char name[64];                             /* of the job, for ps */
    uint64_t fence_low, fence_high;            /* the page above the program break */
    uint64_t reaper_ignored;                   /* signals that a child of the reaper ignores */
    struct rlimit reaper_limits[SPACE_LIMITS]; /* limits of such a child */
    /* The machine's policy (policy/policy.h), set before the first task: how many there may be at
     * once, 0 for as many as there are slots; whether each must be guarded; and whether starts and
     * ends are logged, with digests of the programs. */
    uint32_t tasks_max, require_guard, log, log_digest;
    uintptr_t trampoline_page; /* of tasks without a loader image, mapped once in each */
    /* Number of calls that failed because the space had no mappings left. Relaxed, by any task's
     * threads; the root reads it. */
    _Atomic uint32_t mappings_exhausted;
    /* The ends of the chain that debuggers follow (space/member.c). While `onespace gdb` runs, it
     * sets the head's `version` below SPACE_NAMESPACES, which hides the rest of the chain. */
    struct space_namespace debug_head, debug_tail;
    _Atomic uint32_t debug_linked; /* the entries of the slots up to this one are linked */
    _Atomic uint32_t highest;      /* no slot above this index was ever used */
    _Atomic uint32_t insitu;       /* sticky: the table of channels is mapped; insitu/channel.h */
    _Atomic uint32_t calls; /* sticky: the table of donors is mapped; remote_call/remote_call.h */
    _Atomic uint32_t oversubscribed; /* more tasks than CPUs: a hint, by the host */
    /* Members that have registered memory of others (space/registrations.h): a bit for each slot,
     * all below `registrants_end`, which is 0 until the first. By members, when they start their
     * notifier; bits are cleared by the reaper. */
    _Atomic uint64_t registrants[LAYOUT_SLOTS / 64];
    _Atomic uint32_t registrants_end;
    struct space_guard guard;
    struct space_shm shm;
    struct space_overflows overflows;
    struct space_cpuid cpuids[SPACE_CPUIDS];
    struct space_file files[SPACE_FILES];
    struct space_cache cache;
    struct space_departure departure;
    /* By first entry: the number of entries that a search for a name must visit. Only raised, by
     * compare-and-swap, before the name that needs it is LIVE. */
    _Atomic uint16_t export_probes[SPACE_EXPORTS];
    struct space_export exports[SPACE_EXPORTS];
    struct space_shared shared;
    char xpmem_library[SPACE_XPMEM_PATH]; /* the file that tasks load as libxpmem.so.0; empty: none
                                           */
    /* By PID: slot of a process that uses XPMEM; valid while pids[] agrees. */
    _Atomic uint16_t xpmem_slots[SPACE_PIDS];
    /* [owner][holder]: number of holds; above it (SPACE_HOLDS_COPY) of copies in progress. */
    _Atomic uint32_t holds[LAYOUT_SLOTS][LAYOUT_SLOTS];
    struct space_slot slots[LAYOUT_SLOTS];
    /* PID of each slot's process until it is reaped, otherwise 0; dense, for searches. In thread
     * mode the main thread's TID until the task has ended. In pages of their own, which fork does
     * not make read-only and which are zero in a forked child (map_pids in api/init.c), because the
     * kernel stores a PID here for a spawner that may be killed meanwhile. */
    _Alignas(SPACE_OWN_PAGES) _Atomic int32_t pids[LAYOUT_SLOTS];
};

static_assert(sizeof(struct space) < LAYOUT_GIB, "below the mark");

/* The header that this version writes. */
struct shared_header registry_header(void);
/* Whether the registry is of this version. If not, reports both sides on standard error; `file` is
 * the caller's library, or NULL: no report. Freestanding. */
int registry_matches(const struct space *space, const char *file);

static inline struct space *space_registry(void)
{
    return (struct space *)LAYOUT_REGISTRY;
}

static inline unsigned slot_index_of_id(int32_t id)
{
    return (uint32_t)id % LAYOUT_SLOTS;
}

static inline unsigned slot_index(const struct space *space, const struct space_slot *slot)
{
    return (unsigned)(slot - space->slots);
}

/* Whether the calling process is in the space's memory, not in a forked copy of it. The kernel
 * wipes the mark in a forked child. */
static inline int process_in_space(void)
{
    return *(const volatile uint32_t *)LAYOUT_MARK != 0;
}

#endif
