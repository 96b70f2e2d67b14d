/* src/arch/aarch64/trampoline.h: what patched code jumps to.
 *
 * Every task has a page of trampolines (the same physical page in all tasks) and, at a fixed
 * distance, a page of data. Trampoline i addresses record i of the data page relative to itself and
 * jumps to this library's code, which calls the handler that the data page names. Freestanding. */
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

enum { ARCH_PATCHED_SYSCALLS_MAX = 80, ARCH_SYSCALL_TRAMPOLINE_BYTES = 32 };
struct arch_trampoline_data {
    uintptr_t call_entry; /* code in the root's library */
    void *self;           /* the task's slot */
    struct arch_handlers handlers;
    struct arch_patched_syscall calls[ARCH_PATCHED_SYSCALLS_MAX];
};

/* Fills the page of trampolines for a data page that lies `distance` bytes above it. */
void arch_write_trampolines(unsigned char bytes[ARCH_PAGE_MIN], int32_t distance);
/* Fills the task's data page except for its calls. The handlers must be those of the root's copy
 * of the library: they are called as long as the space lives. */
void arch_init_trampoline_data(struct arch_trampoline_data *data, void *self,
                               const struct arch_handlers *handlers);
/* The address of a trampoline, given the address of their page. */
uintptr_t arch_syscall_trampoline(uintptr_t trampolines, unsigned index);
/* The address of the signal handler that calls handlers.fault with the task's slot and then jumps
 * to the handler that it returns, if any, with registers and stack as the kernel left them. */
uintptr_t arch_fault_trampoline(uintptr_t trampolines);

/* An address whose unwinding information (.eh_frame) is right for every trampoline of a call: from
 * one the caller is found by arch_patched_syscall.resume. Never run. */
extern const char arch_trampoline_frame[];

#endif /* __ASSEMBLER__ */

#endif
