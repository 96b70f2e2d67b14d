/* src/registry/interpose.h: a task's own view of what the kernel keeps once per address space. */
#ifndef ONESPACE_REGISTRY_INTERPOSE_H
#define ONESPACE_REGISTRY_INTERPOSE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "registry/intervals.h"

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
    _Atomic uint64_t break_now, break_mapped; /* the task's program break; end of what is mapped */
    _Atomic uint32_t lock;                    /* PI futex; see space/lock.h */
    _Atomic uint32_t out_of_range_lost;       /* mappings that its table had no place for */
    struct space_sigaction actions[2];        /* SIGSEGV, SIGBUS */
    uintptr_t image_low, image_high;          /* extent of the library that ld.so is loading */
    int32_t image_fd;
    _Atomic uint32_t break_kept; /* pages above the break that a later growth must make zero */
    uintptr_t trampolines, trampoline_data; /* addresses of their page and of its data page */
    uintptr_t fault_trampoline; /* our handler for SIGSEGV and SIGBUS, 0: not installed */
    /* Of the task's own copy of the library, set by its first call into another member, under
     * `lock`; 0 before (call/signals.c). */
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
};

#endif
