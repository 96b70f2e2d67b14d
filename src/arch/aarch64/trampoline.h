/* src/arch/aarch64/trampoline.h: what patched code jumps to (cpu/interface.h). */
#ifndef ONESPACE_ARCH_TRAMPOLINE_H
#define ONESPACE_ARCH_TRAMPOLINE_H

/* Offsets for trampoline.S, asserted in trampoline.c. */
#define ARCH_DATA_BYTES           4096 /* at a multiple of which the data page lies */
#define ARCH_DATA_SYSCALL_ENTRY   0
#define ARCH_DATA_SELF            8
#define ARCH_DATA_SYSCALL_HANDLER 16
#define ARCH_DATA_FAULT_HANDLER   24
#define ARCH_SYSCALL_NR           8
#define ARCH_SYSCALL_RESUME       16
#define ARCH_SYSCALL_SCRATCH      32
#define ARCH_SYSCALL_TRAMPOLINE   32 /* bytes of a trampoline */
#define ARCH_TRAMPOLINE_DISTANCE  24 /* in it: of its record */

#ifndef __ASSEMBLER__

#include <stddef.h>
#include <stdint.h>

#include "arch/constants.h"
#include "cpu/interface.h"

/* There is no instruction to be answered from a table as x86's cpuid is. */
#define ARCH_HAS_CPUID 0

/* A replaced system call. */
struct arch_patched_syscall {
    void *self;       /* the task's slot */
    long nr;          /* the system call's number, with which it was found */
    uintptr_t resume; /* the instruction after the system call */
    long is_loader;   /* the patch site is in the dynamic linker, not in a libc */
    long scratch;     /* 16 or 17: the register by which to resume, which the code does not need */
};

/* The functions that trampolines call on the task's thread, with the registers of the replaced
 * instruction saved. All are freestanding and compiled without vector registers. */
struct arch_handlers {
    /* A system call: its result or -errno. */
    long (*call)(const struct arch_patched_syscall *call, const long arguments[6]);
    /* SIGSEGV or SIGBUS: the program's handler to continue in, or 0 if the signal was handled. */
    uintptr_t (*fault)(int signal, void *information, void *context, void *slot);
};

enum { ARCH_PATCHED_SYSCALLS_MAX = 96, ARCH_SYSCALL_TRAMPOLINE_BYTES = 32 };
struct arch_trampoline_data {
    uintptr_t call_entry; /* code in the root's library */
    void *self;           /* the task's slot */
    struct arch_handlers handlers;
    struct arch_patched_syscall calls[ARCH_PATCHED_SYSCALLS_MAX];
};

#endif /* __ASSEMBLER__ */

#endif
