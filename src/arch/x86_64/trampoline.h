/* src/arch/x86_64/trampoline.h: what patched code jumps to.
 *
 * Every task has a page of trampolines (the same physical page in all tasks) and, at a fixed
 * distance, a page of data. Trampoline i addresses record i of the data page relative to itself and
 * jumps to this library's code, which calls the handler that the data page names. Freestanding. */
#ifndef ONESPACE_ARCH_TRAMPOLINE_H
#define ONESPACE_ARCH_TRAMPOLINE_H

/* Offsets for trampoline.S, asserted in trampoline.c. */
#define ARCH_DATA_BYTES           4096 /* at a multiple of which the data page lies */
#define ARCH_DATA_SYSCALL_HANDLER 24
#define ARCH_DATA_CPUID_HANDLER   32
#define ARCH_SYSCALL_RESUME       16

#ifndef __ASSEMBLER__

#include <stddef.h>
#include <stdint.h>

#include "arch/constants.h"

/* cpuid instructions are answered from a table: interpose/patch/cpuid.c. */
#define ARCH_HAS_CPUID 1

/* A replaced system call. */
struct arch_patched_syscall {
    void *self;       /* the task's slot */
    long nr;          /* the system call's number */
    uintptr_t resume; /* the instruction after the system call */
    long is_loader;   /* the patch site is in the dynamic linker, not in a libc */
};
/* A replaced cpuid instruction. */
struct arch_cpuid {
    uint32_t leaf;
    int16_t leaf_register, subleaf_register; /* hardware numbers; ARCH_CPUID_* */
    uintptr_t resume;
};
enum { ARCH_CPUID_IMMEDIATE = -1, ARCH_CPUID_ZERO = -2, ARCH_CPUID_AS_IT_IS = -3 };

/* The functions that trampolines call on the task's thread, with the registers of the replaced
 * instruction saved. All are freestanding and compiled without vector registers. */
struct arch_handlers {
    /* A system call: its result or -errno. */
    long (*call)(const struct arch_patched_syscall *call, const long arguments[6]);
    /* cpuid: `registers` in hardware order (rax, rcx, rdx, rbx, …) gets the four results. */
    void (*cpuid)(const struct arch_cpuid *cpuid, uint64_t registers[16]);
    /* SIGSEGV or SIGBUS: the program's handler to continue in, or 0 if the signal was handled. */
    uintptr_t (*fault)(int signal, void *information, void *context, void *slot);
};

enum { ARCH_PATCHED_SYSCALLS_MAX = 80, ARCH_CPUIDS_MAX = 60, ARCH_SYSCALL_TRAMPOLINE_BYTES = 16 };
struct arch_trampoline_data {
    uintptr_t call_entry, cpuid_entry; /* code in the root's library */
    void *self;                        /* the task's slot */
    struct arch_handlers handlers;
    struct arch_patched_syscall calls[ARCH_PATCHED_SYSCALLS_MAX];
    struct arch_cpuid cpuids[ARCH_CPUIDS_MAX];
};

/* Fills the page of trampolines for a data page that lies `distance` bytes above it. */
void arch_write_trampolines(unsigned char bytes[ARCH_PAGE], int32_t distance);
/* Fills the task's data page except for its calls and cpuids. The handlers must be those of the
 * root's copy of the library: they are called as long as the space lives. */
void arch_init_trampoline_data(struct arch_trampoline_data *data, void *self,
                               const struct arch_handlers *handlers);
/* The address of a trampoline, given the address of their page. */
uintptr_t arch_syscall_trampoline(uintptr_t trampolines, unsigned index);
uintptr_t arch_cpuid_trampoline(uintptr_t trampolines, unsigned index);
/* The address of the signal handler that calls handlers.fault with the task's slot and then jumps
 * to the handler that it returns, if any, with registers and stack as the kernel left them. */
uintptr_t arch_fault_trampoline(uintptr_t trampolines);
/* The same for guarded tasks, whose stacks a handler has no right to at its entry: first of all it
 * gets the right to all memory (keys.h). handlers.fault returns with the rights that the handler is
 * to have. */
uintptr_t arch_guard_trampoline(uintptr_t trampolines);

/* An address whose unwinding information (.eh_frame) is right for every trampoline of a call: from
 * one the caller is found by arch_patched_syscall.resume. Never run. */
extern const char arch_trampoline_frame[];

#endif /* __ASSEMBLER__ */

#endif
