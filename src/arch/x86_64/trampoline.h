/* src/arch/x86_64/trampoline.h: what patched code jumps to (cpu/interface.h). */
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
#include "cpu/interface.h"

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

enum { ARCH_PATCHED_SYSCALLS_MAX = 96, ARCH_CPUIDS_MAX = 60, ARCH_SYSCALL_TRAMPOLINE_BYTES = 16 };
struct arch_trampoline_data {
    uintptr_t call_entry, cpuid_entry; /* code in the root's library */
    void *self;                        /* the task's slot */
    struct arch_handlers handlers;
    struct arch_patched_syscall calls[ARCH_PATCHED_SYSCALLS_MAX];
    struct arch_cpuid cpuids[ARCH_CPUIDS_MAX];
};

#endif /* __ASSEMBLER__ */

#endif
