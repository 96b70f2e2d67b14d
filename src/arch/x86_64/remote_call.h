/* src/arch/x86_64/remote_call.h: the thread pointer. */
#ifndef ONESPACE_ARCH_REMOTE_CALL_H
#define ONESPACE_ARCH_REMOTE_CALL_H

#include <stdint.h>

#include "arch/syscall.h"
#include "cpu/remote_call.h"

/* Whether programs may change the thread pointer without a system call (FSGSBASE). */
int arch_may_set_thread_pointer(void);

/* The first word at the thread pointer holds its own address, in glibc and in musl. */
static inline uintptr_t arch_thread_pointer(void)
{
    uintptr_t pointer;
    __asm__ volatile("mov %%fs:0, %0" : "=r"(pointer));
    return pointer;
}

static inline void arch_set_thread_pointer(uintptr_t pointer, int by_call)
{
    if (by_call)
        raw_syscall6(158 /* arch_prctl */, 0x1002 /* ARCH_SET_FS */, (long)pointer, 0, 0, 0, 0);
    else
        __asm__ volatile("wrfsbase %0" ::"r"(pointer) : "memory");
}

#endif
