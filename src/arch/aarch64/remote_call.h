/* src/arch/aarch64/remote_call.h: the thread pointer. */
#ifndef ONESPACE_ARCH_REMOTE_CALL_H
#define ONESPACE_ARCH_REMOTE_CALL_H

#include <stdint.h>

#include "cpu/remote_call.h"

/* Whether programs may change the thread pointer without a system call. */
static inline int arch_may_set_thread_pointer(void)
{
    return 1;
}

static inline uintptr_t arch_thread_pointer(void)
{
    uintptr_t pointer;
    __asm__ volatile("mrs %0, tpidr_el0" : "=r"(pointer));
    return pointer;
}

static inline void arch_set_thread_pointer(uintptr_t pointer, int by_call)
{
    (void)by_call;
    __asm__ volatile("msr tpidr_el0, %0" ::"r"(pointer) : "memory");
}

#endif
