/* src/space/registry.h: the registry of a space, in memory that all members see.
 *
 * Every program in the space may carry its own copy of the library, so everything here crosses
 * programs: the layout is part of the ABI and asserted below. A task may be killed between any two
 * instructions; therefore nothing here is locked across programs. Each word has one writer, or is
 * changed by compare-and-swap only, and the keeper, which reaps every task, finishes or undoes what
 * a dead task left half done.
 *
 * The word `state` of a slot holds, above the state, who claimed it, so that a claim and its author
 * appear at once.
 *
 * States of a slot (who moves it on):
 *
 *   FREE      -> CLAIMED    a spawner, by compare-and-swap
 *   CLAIMED   -> BORN       the spawner (a task) or the keeper (for the root), right before clone
 *   CLAIMED/BORN -> FREE    the spawner, when there is no process; or the keeper, when the spawner
 *                           died before there was one (through BROKEN, while it unmaps)
 *   BORN      -> RUNNING    the newborn itself, right before it enters its program
 *   RUNNING   -> LEFT       the keeper: it executed another program; the process lives
 *   BORN/RUNNING/LEFT -> ENDED   the keeper: it was reaped, the status can be collected
 *   ENDED     -> COLLECTED  a waiter, by compare-and-swap (the keeper if nobody will wait)
 *   COLLECTED -> FREE       whoever comes last, collector or keeper, when the memory is gone
 */
#ifndef ONESPACE_SPACE_REGISTRY_H
#define ONESPACE_SPACE_REGISTRY_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "space/layout.h"

#define SPACE_MAGIC UINT64_C(0x65636170736e6f31) /* "1onspace" */
#define SPACE_ABI   1u

/* Types of auxiliary vector entries that carry the registry's and the slot's address to a task's
 * agent and library. Outside the kernel's range; inherited by nothing. */
#define SPACE_AT_REGISTRY 0x6f6e6501ul
#define SPACE_AT_SLOT     0x6f6e6502ul

enum slot_state {
    SLOT_FREE,
    SLOT_CLAIMED,
    SLOT_BORN,
    SLOT_RUNNING,
    SLOT_LEFT,
    SLOT_ENDED,
    SLOT_COLLECTED,
    SLOT_BROKEN,
    SLOT_EXITED = 0x100,    /* in `exited` */
    SLOT_STATE_MASK = 0xff, /* above it, while CLAIMED, the index of the spawner's slot */
};

enum memory_state {
    MEMORY_NONE,    /* nothing mapped */
    MEMORY_PRESENT, /* the task's, or an ended task's that is still held */
    MEMORY_GOING,   /* the keeper is about to unmap it: no new holds */
};

enum {
    SPACE_FOREIGN_MAX = 256,
    SPACE_PROGRAM_MAX = 256,
    SPACE_EXPORTS = 16384,
    SPACE_EXPORT_NAME = 96,
    SPACE_FILES = 256,
    SPACE_FILE_SITES = 96,
    SPACE_CPUIDS = 96,
    SPACE_LIMITS = 16,
    SPACE_XPMEM_PATH = 4096,
    SPACE_PIDS = 1 << 22, /* the kernel's PID_MAX_LIMIT */
};

/* A mapping that a task made outside its range, because it asked for the address. */
struct space_foreign {
    uintptr_t start, end; /* end 0: unused */
};

/* What a program believes its handler for SIGSEGV or SIGBUS is; the kernel has ours. The layout is
 * the kernel's struct sigaction. */
struct space_sigaction {
    uintptr_t handler;
    unsigned long flags;
    uintptr_t restorer;
    uint64_t mask;
};

/* Steering: the task's own view of what the kernel keeps once per address space. Written by the
 * task's threads only, read by the keeper after its end. */
struct space_steer {
    _Atomic uint64_t files_next;    /* next place for a file mapping */
    _Atomic uint64_t mappings_next; /* next place for any other mapping */
    _Atomic uint32_t site_count;    /* stubs in use */
    uint32_t cpuid_count;
    _Atomic uint64_t break_now, break_mapped; /* the task's program break; end of what is mapped */
    _Atomic uint32_t lock;                    /* TID of the thread that changes what follows */
    _Atomic uint32_t foreign_lost;     /* mappings outside the range that found foreign[] full */
    struct space_sigaction actions[2]; /* SIGSEGV, SIGBUS */
    uintptr_t image_low, image_high;   /* extent of the library that ld.so is loading */
    int32_t image_fd;
    _Atomic uint32_t break_kept; /* bytes above the break that a later growth must make zero */
    uintptr_t stubs, stub_data;  /* addresses of the page of stubs and of its data page */
    uintptr_t fault_stub;        /* our handler for SIGSEGV and SIGBUS, 0: not installed */
    _Atomic uint32_t peer;       /* slot index of the last copy's peer: a hint */
    struct space_foreign foreign[SPACE_FOREIGN_MAX];
};

/* Statistics of the drop-ins, for --stats and ps. Relaxed counters, written by the task. */
struct space_stats {
    _Atomic uint64_t cma_calls, cma_bytes; /* copied in user space */
    _Atomic uint64_t cma_kernel_calls;     /* passed to the system call */
    _Atomic uint64_t cma_faults;           /* a copy faulted and was redone by the kernel */
    _Atomic uint64_t xpmem_attaches;
    _Atomic uint32_t yields; /* how often it gave its processor up; wraps */
};

/* What a member has made and got through XPMEM: src/xpmem/entries.h. Its threads change it, the
 * keeper resets it when all of them are gone. */
struct space_xpmem_table {
    _Atomic uint64_t free;   /* entries given back: index + 1 of the newest, change count << 32 */
    _Atomic uint32_t used;   /* entries that were ever taken */
    _Atomic uint32_t mapped; /* entries whose memory is there; stays, for the slot's next task */
};
struct space_xpmem {
    struct space_xpmem_table tables[2]; /* enum entry_kind */
    _Atomic uint32_t known;             /* what follows is filled; release */
    uint32_t uid, gid, euid, egid;      /* at the first call */
};

/* A robust futex of the task's main thread, linked into its libc's own list by the agent. The
 * kernel sets FUTEX_OWNER_DIED in the word when that thread ends or the task executes another
 * program. The libc fixes the distance from `next` to the word (glibc 32 bytes, musl 28), hence the
 * array. */
struct space_robust {
    _Atomic uint32_t words[14]; /* words[at] is TID | FUTEX_WAITERS */
    uintptr_t previous, next;   /* of the list: addresses of `next` fields, as both libcs have it */
    _Atomic uint32_t at;        /* index of the word + 1; 0: no agent */
    uint32_t unused;
};

/* What a debugger reads: the layouts are those of struct r_debug_extended and struct link_map of
 * glibc's link.h (2.35 and later). See debugger.h. */
struct space_namespace {
    int32_t version; /* SPACE_NAMESPACES: `next` is there */
    int32_t unused;
    _Atomic uintptr_t
        maps; /* the first link map, 0: none; the task writes it, the keeper clears it */
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

struct space_slot {
    _Alignas(64) _Atomic uint32_t state; /* enum slot_state */
    _Atomic int32_t id;      /* unique while the space lives; slot index = id mod slots */
    _Atomic uint32_t ended;  /* the futex of onespace_watch; keeper: 0 -> 1 */
    _Atomic uint32_t memory; /* enum memory_state; see holds.c for its order with holds */
    _Atomic int32_t pid;
    /* Blocks that other tasks have freed, linked through their first words; see agent/free.c. */
    _Atomic uintptr_t returned;
    int32_t spawner;         /* id of the member that spawned it */
    _Atomic uint32_t orphan; /* keeper: the spawner has ended, the root inherits */
    uint32_t flags;          /* ONESPACE_SPAWN_* */
    int32_t number, ntasks;
    int32_t status;           /* wait status, valid from ENDED on */
    _Atomic uint32_t leaving; /* the task is in execve; set and cleared by its exec hook */
    /* Thread mode: SLOT_EXITED | the status it gave; written once, by whichever of its threads
     * calls exit first, with release; read by the keeper with acquire. */
    _Atomic uint32_t exited;
    uint32_t sweeps;       /* keeper: how often it looked for threads that cannot be told yet */
    _Atomic int32_t birth; /* futex: 0, 1 entered its program, or -errno; written by the newborn */
    _Atomic int32_t birth_stage;
    _Atomic uint32_t loaded; /* futex: 1 when its libraries are loaded; by the task's agent, or by
                                the spawner where there is none */
    _Atomic int32_t next_request; /* the keeper's request list: slot index of the next, -1 end */
    /* Sticky hints that let the keeper skip tables; set before what they announce. */
    _Atomic uint32_t has_exported, has_spawned, has_imported, was_imported;
    uint64_t started_ns; /* CLOCK_MONOTONIC */
    uint64_t user_us, system_us;
    uintptr_t stack_low, stack_high;
    uintptr_t link_map;            /* the root's: first of its link maps */
    uintptr_t interpreter_bias;    /* of its ld.so, or of itself when static */
    uintptr_t interpreter_dynamic; /* address of the ld.so's PT_DYNAMIC */
    uintptr_t birth_record;
    struct space_robust robust;
    struct space_debug debug;
    struct space_xpmem xpmem;
    char program[SPACE_PROGRAM_MAX]; /* real path, truncated at the front if longer */
    struct space_stats stats;
    struct space_steer steer;
};

/* One exported name. The owner's threads write it, everybody reads it (exports.c). */
enum export_state { EXPORT_FREE, EXPORT_CLAIMED, EXPORT_LIVE };
enum { EXPORT_KIND_MASK = 0xff, EXPORT_SLOT_SHIFT = 8, EXPORT_USE_SHIFT = 32 };
struct space_export {
    /* enum export_state, above it the owner's slot, above that how often the entry was used:
     * FREE -> CLAIMED (compare-and-swap) -> LIVE -> FREE, by the owner, or by the keeper to FREE
     * when the owner is dead. */
    _Atomic uint64_t state;
    _Atomic int32_t owner; /* id */
    _Atomic uint32_t hash;
    _Atomic uintptr_t address;
    _Atomic uint64_t size;
    _Atomic char name[SPACE_EXPORT_NAME];
};

/* The patchable sites of a file that was mapped executable. FILLING entries whose filler died stay
 * unused; readers skip what is not READY. */
struct space_site {
    uint32_t at;          /* offset from the start of the mapping */
    uint16_t nr;          /* system call number, or SPACE_SITE_CPUID */
    uint8_t length, lead; /* as arch_next_site found them */
};
#define SPACE_SITE_CPUID 0xffffu
/* What the processor answers; state as of a file. */
struct space_cpuid {
    _Atomic uint32_t state;
    uint32_t leaf, subleaf, answer[4], unused;
};
enum file_state { FILE_EMPTY, FILE_FILLING, FILE_READY };
struct space_file {
    _Atomic uint32_t state;
    uint16_t count, left_out; /* sites kept; those that found sites[] full */
    uint64_t device, inode, changed_ns, size, offset, length;
    struct space_site sites[SPACE_FILE_SITES];
};

/* ld.so.cache, mapped once for all tasks: EMPTY -> FILLING -> READY as with files. */
struct space_cache {
    _Atomic uint32_t state;
    uint64_t device, inode, changed_ns, size;
};

/* What found its table full since the space began: all goes on, with less. Relaxed counters that
 * any task's threads raise and ps and the root read. */
struct space_overflows {
    _Atomic uint32_t sites;  /* system calls that were left as they are */
    _Atomic uint32_t files;  /* files that were searched for sites without keeping the result */
    _Atomic uint32_t cpuids; /* questions to the processor that were not answered from the table */
    _Atomic uint32_t mappings; /* mappings outside their task's range that stay when it ends */
};

/* Functions of the root's copy of the library, which lives as long as the space: what is called on
 * tasks' threads must not vanish with the program that spawned them. */
struct space;
struct birth;
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
struct space_operations {
    /* By the agent, once; the first of its ld.so's link maps, or 0. */
    void (*task_attached)(struct space_slot *self, uintptr_t link_map);
    long (*steer)(struct space_slot *self, long nr, const long arguments[6]);
    long (*prepare)(struct space *space, struct space_slot *slot);
    long (*birth_clone)(struct birth *birth, int as_sibling);
    struct space_xpmem_operations xpmem;
    void (*thread_exit)(struct space_slot *self, int status); /* in place of _exit: no return */
};

struct space {
    uint64_t magic;
    uint32_t abi, size; /* of this struct */
    struct space_operations operations;
    int32_t root_pid;
    _Atomic int32_t keeper_pid;
    uint64_t created_ns;
    _Alignas(64) _Atomic uint32_t events; /* futex the keeper sleeps on; bumped to wake it */
    _Atomic uint32_t departures;          /* tasks that entered execve so far */
    _Atomic uint32_t keeper_word;         /* robust futex of the keeper, as `member` of a slot */
    _Atomic uint32_t closing;             /* onespace_fini asks the keeper to end */
    _Atomic uint32_t had_threads;         /* sticky: a task in thread mode was made */
    _Atomic uint32_t holds_pending;       /* keeper: ended tasks' memory waits for its holders */
    _Atomic uint32_t holds_changed;       /* a hold on an ended task's memory went */
    _Atomic int32_t requests;             /* newest slot whose birth the keeper shall make, or -1 */
    _Alignas(64) _Atomic uint32_t free_hint; /* a free slot is likely here or above */
    _Alignas(64) _Atomic uint32_t ends;      /* futex: bumped at every end of a task */
    _Alignas(64) _Atomic uint32_t names;     /* futex: bumped at every export and every end */
    _Alignas(64) _Atomic uint64_t barrier;   /* generation << 32 | arrived */
    /* The group of tasks that were started together. With none of them alive, the next group begins
     * with a number that this one has had, or with another count. */
    _Atomic uint32_t group_ntasks;
    _Atomic uint32_t group_numbers[LAYOUT_SLOTS / 32]; /* bit per number that was started */
    _Atomic uint32_t group_ended;   /* members that ended or left: the barrier is broken */
    _Atomic uint32_t group_loaded;  /* futex: members whose libraries are loaded */
    char name[64];                  /* of the job, for ps */
    uint64_t fence_low, fence_high; /* the page behind the program break */
    uint64_t keeper_ignored;        /* signals that a child of the keeper has ignored */
    struct rlimit keeper_limits[SPACE_LIMITS]; /* which such a child has, too */
    uintptr_t stub_page; /* of tasks without a loader image, mapped once in each */
    /* pid of each slot's process while it is to be reaped, else 0: dense, for searches. In thread
     * mode the main thread's TID until the task has ended. */
    _Alignas(64) _Atomic int32_t pids[LAYOUT_SLOTS];
    /* Before the first slot's entry and behind the last one's; `version` of the head below
     * SPACE_NAMESPACES hides what follows: set by `onespace gdb` from outside, while it runs. */
    struct space_namespace debug_head, debug_tail;
    _Atomic uint32_t debug_linked; /* the entries of the slots up to this one are linked */
    _Atomic uint32_t highest;      /* no slot above this index was ever used */
    _Atomic uint32_t insitu;       /* sticky: the table of channels is mapped; insitu/channel.h */
    _Atomic uint32_t crowded;      /* more tasks want to run than there are processors: a hint */
    struct space_overflows overflows;
    struct space_cpuid cpuids[SPACE_CPUIDS];
    struct space_file files[SPACE_FILES];
    struct space_cache cache;
    /* How many entries a search for a name must look at, by where it begins. Only ever raised, by
     * compare-and-swap, before the name that needs it is LIVE. */
    _Atomic uint16_t export_reach[SPACE_EXPORTS];
    struct space_export exports[SPACE_EXPORTS];
    char xpmem_library[SPACE_XPMEM_PATH]; /* what tasks get for libxpmem.so.0; empty: none */
    /* Slot of a process that has made or got something through XPMEM; true while pids[] agrees. */
    _Atomic uint16_t xpmem_slots[SPACE_PIDS];
    _Atomic uint16_t holds[LAYOUT_SLOTS][LAYOUT_SLOTS]; /* [owner][holder] */
    struct space_slot slots[LAYOUT_SLOTS];
};

static_assert(offsetof(struct space, operations) == 16, "found by tools of every version");
static_assert(sizeof(struct space_export) == 128, "ABI 1");
static_assert(SPACE_EXPORTS <= UINT16_MAX, "a search may reach all entries");
static_assert(sizeof(struct space_sigaction) == 32, "as the kernel has it");
static_assert(sizeof(struct space_namespace) == 48, "as ld.so has it");
static_assert(offsetof(struct space_robust, previous) == 56, "next - 8, as both libcs have it");
static_assert(sizeof(struct space) < LAYOUT_GIB, "below the mark");

static inline struct space *space_registry(void)
{
    return (struct space *)LAYOUT_REGISTRY;
}

static inline unsigned space_index(int32_t id)
{
    return (uint32_t)id % LAYOUT_SLOTS;
}

static inline uint32_t space_state(const struct space_slot *slot)
{
    return atomic_load_explicit(&slot->state, memory_order_acquire) & SLOT_STATE_MASK;
}

static inline void space_count(_Atomic uint32_t *counter, uint32_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

/* The slot that carries `id` now, or NULL. */
struct space_slot *space_slot(struct space *space, int32_t id);
/* A free slot, CLAIMED for `spawner`, with a fresh id; or NULL when the table is full. */
struct space_slot *space_claim(struct space *space, int32_t spawner);

/* Whether the slot's task is a thread of another member's process. The flag is
 * ONESPACE_SPAWN_THREAD, asserted in api.c: not all that is linked here includes onespace.h. */
#define SPACE_FLAG_THREAD 128u
static inline int space_is_thread(const struct space_slot *slot)
{
    return (slot->flags & SPACE_FLAG_THREAD) != 0;
}

/* Frees a slot whose status was collected and whose memory is gone. The collector calls it after
 * setting COLLECTED, the keeper after setting MEMORY_NONE (both sequentially consistent), so that
 * whoever comes last sees both; the compare-and-swap lets one of them win. */
void space_release_slot(struct space_slot *slot);
/* Makes a slot that only the caller refers to free again. */
void space_free_slot(struct space *space, struct space_slot *slot);

/* Makes the caller the root of `space` (NULL: of none any more). */
void space_set_root(struct space *space);

static inline unsigned space_slot_index(const struct space *space, const struct space_slot *slot)
{
    return (unsigned)(slot - space->slots);
}

/* The caller's space and slot: NULL outside a space and in a forked child. */
struct space *space_mine(void);
struct space_slot *space_self(void);
/* Whether the caller's process image descends from a member by fork. */
int space_was_member(void);
/* Whether this memory image is the space's (not a forked copy): the mark is there. */
static inline int space_marked(void)
{
    return *(const volatile uint32_t *)LAYOUT_MARK != 0;
}

#endif
