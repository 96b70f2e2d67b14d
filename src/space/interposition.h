/* src/space/interposition.h: the state of system call interposition in the registry: caches that
 * all tasks use, the protection keys of guard mode, and each task's view of what the kernel keeps
 * once per address space. */
#ifndef ONESPACE_SPACE_INTERPOSITION_H
#define ONESPACE_SPACE_INTERPOSITION_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "arch/keys.h"
#include "base/file_identity.h"
#include "space/intervals.h"

struct space;
struct space_slot;

/* ---- Caches for all tasks: patch sites of files, ld.so.cache, answers of cpuid ---- */

enum { SPACE_FILES = 256, SPACE_FILE_PATCH_SITES = 96, SPACE_CPUIDS = 96 };

/* The patch sites of a file that was mapped executable. FILLING entries whose filler died stay
 * unused; readers skip what is not READY. */
struct space_patch_site {
    uint32_t at;               /* offset from the start of the mapping */
    uint16_t nr;               /* system call number, or SPACE_PATCH_SITE_CPUID */
    uint8_t length, displaced; /* as arch_next_patch_site found them */
};
#define SPACE_PATCH_SITE_CPUID 0xffffu
/* A cached answer of cpuid; `state` as in struct space_file. */
struct space_cpuid {
    _Atomic uint32_t state;
    uint32_t leaf, subleaf, answer[4], unused;
};
enum file_state { FILE_EMPTY, FILE_FILLING, FILE_READY };
struct space_file {
    _Atomic uint32_t state;
    uint16_t count, left_out; /* patch sites kept; those that found patch_sites[] full */
    struct file_identity identity;
    uint64_t offset, length; /* of the mapping */
    uint64_t is_loader;      /* searched as a dynamic linker */
    struct space_patch_site patch_sites[SPACE_FILE_PATCH_SITES];
};

/* ld.so.cache, mapped once for all tasks: EMPTY -> FILLING -> READY as with files. */
struct space_cache {
    _Atomic uint32_t state;
    struct file_identity identity;
};

/* ---- Guard mode: the protection keys of a space ----
 *
 * A guarded task's own memory has a key: of the first tasks each its own, beyond that in rotation.
 * Its threads may write to memory of that key and of key 0, and read all. Key 0 has the
 * shared memory: the registry, all else in slot 0's range, shared mappings, and the memory of
 * the root and of members that are not guarded. */

/* So many tasks have a key of their own. One is left for programs that use keys themselves. */
enum { SPACE_GUARD_KEYS = 14 };

/* Written by the root before its first guarded task, but for `count`, which it stores last, with
 * release; constant then. */
struct space_guard {
    _Atomic uint32_t count;       /* keys in rotation; 0: no task is guarded. Readers acquire it. */
    uint32_t no_access, no_write; /* all of these keys' bits in a thread's rights */
    uint32_t saved_at;            /* for arch_saved_rights */
    /* Whether handlers are entered with all signals blocked: where the kernel cannot deliver a
     * second signal before the first one's handler has the right to its stack. */
    uint32_t blocks_signals;
    uint8_t keys[SPACE_GUARD_KEYS];
    uint8_t unused[2];
};

/* Lets the calling thread access and change all tasks' memory: the rights that it had, for
 * guard_close. Nothing happens where no task is guarded. */
static inline uint32_t guard_open(const struct space_guard *guard)
{
#if ARCH_HAS_KEYS
    if (atomic_load_explicit(&guard->count, memory_order_acquire) == 0)
        return 0;
    uint32_t rights = arch_rights();
    arch_set_rights(rights & ~(guard->no_access | guard->no_write));
    return rights;
#else
    (void)guard;
    return 0;
#endif
}

static inline void guard_close(const struct space_guard *guard, uint32_t rights)
{
#if ARCH_HAS_KEYS
    if (atomic_load_explicit(&guard->count, memory_order_acquire))
        arch_set_rights(rights);
#else
    (void)guard, (void)rights;
#endif
}

/* ---- A task's own view of what the kernel keeps once per address space ---- */

enum {
    /* It moves without a system call, because the program may have forbidden them. */
    SPACE_BREAK_RESERVED = 1,
    /* The program has changed mappings below it, which must not outlive a break that is lowered. */
    SPACE_BREAK_CHANGED = 2,
};

/* The handler that a program has set for SIGSEGV or SIGBUS; the kernel has ours. The layout is that
 * of the kernel's struct sigaction. */
struct space_sigaction {
    uintptr_t handler;
    unsigned long flags;
    uintptr_t restorer;
    uint64_t mask;
};

static_assert(sizeof(struct space_sigaction) == 32, "as the kernel has it");

/* Runs the program's handler of a fault in a call into another member: 1; 0 if the thread is in no
 * call. */
typedef int interpose_call_fault(int signal, void *information, void *context, uintptr_t handler);

/* The task's own view of what the kernel keeps once per address space. Written by the
 * task's threads only, read by the reaper after its end. */
struct space_interpose {
    _Atomic uint64_t files_next;       /* where the search for a file mapping's place begins */
    _Atomic uint64_t mappings_next;    /* and for any other mapping's */
    _Atomic uint32_t trampoline_count; /* trampolines in use */
    uint32_t cpuid_count;
    _Atomic uint32_t has_libc;                /* sticky: its libc has been patched. Relaxed */
    _Atomic uint64_t break_now, break_mapped; /* the task's program break; end of what is mapped */
    _Atomic uint32_t lock;                    /* PI futex; see space/locks.h */
    _Atomic uint32_t out_of_range_lost;       /* mappings that its table had no place for */
    struct space_sigaction actions[2];        /* SIGSEGV, SIGBUS */
    uintptr_t image_low, image_high;          /* extent of the library that ld.so is loading */
    int32_t image_fd;
    _Atomic uint32_t
        break_kept_pages; /* pages above the break that a later growth must make zero */
    uintptr_t trampolines, trampoline_data; /* addresses of their page and of its data page */
    uintptr_t fault_trampoline; /* our handler for SIGSEGV and SIGBUS, 0: not installed */
    /* In the task's own copy of the library; set under `lock` by its first call into another
     * member, 0 before (remote_call/signals.c). */
    _Atomic uintptr_t call_handler;  /* the handler that the kernel has in place of the program's */
    _Atomic uintptr_t call_handlers; /* the program's: _Atomic uintptr_t[65], by signal */
    _Atomic uintptr_t call_fault;    /* interpose_call_fault */
    _Atomic uint32_t peer;           /* slot index of the last copy's peer: a hint */
    _Atomic uint32_t break_flags;    /* SPACE_BREAK_… */
    /* Set when ld.so opens the library of a GPU, by any thread of the task; the MPI layer in the
     * same task reads it. Relaxed: the thread that uses the library has loaded it, or was told so.
     */
    _Atomic uint32_t gpu_library;
    struct space_intervals intervals[INTERVALS_KINDS];
    /* By the member's threads, and by members that map over one of its intervals: always by
     * compare-and-swap. All 0 at the start of a task. */
    _Atomic uint64_t interval_words[INTERVALS_KINDS][INTERVALS_IN_SLOT];
};

#endif
