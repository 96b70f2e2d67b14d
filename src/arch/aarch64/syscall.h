/* src/arch/aarch64/syscall.h: system calls without libc, and the CPU's pause and clock.
 * Freestanding. */
#ifndef ONESPACE_ARCH_SYSCALL_H
#define ONESPACE_ARCH_SYSCALL_H

#include <asm/unistd.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/interface.h"

/* Returns the kernel's value: a result or -errno. Touches neither errno nor any other thread-local
 * storage. */
#ifdef __clang_analyzer__
/* The analyzer does not understand the assembly below. It assumes that a function it cannot see
 * writes to everything. */
long raw_syscall6(long nr, long a1, long a2, long a3, long a4, long a5, long a6);
#else
static inline long raw_syscall6(long nr, long a1, long a2, long a3, long a4, long a5, long a6)
{
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a1;
    register long x1 __asm__("x1") = a2;
    register long x2 __asm__("x2") = a3;
    register long x3 __asm__("x3") = a4;
    register long x4 __asm__("x4") = a5;
    register long x5 __asm__("x5") = a6;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory", "cc");
    return x0;
}
#endif

static inline void arch_pause(void)
{
    __asm__ volatile("yield" ::: "memory");
}

/* A clock of some nanoseconds, for comparisons of short spans on one CPU. Unordered: the CPU may
 * read it a few instructions early or late, and a hypervisor may let it advance in larger steps. */
static inline uint64_t arch_ticks(void)
{
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks)::"memory");
    return ticks;
}
/* Half a microsecond, and a tick at least. */
static inline uint64_t arch_ticks_of_half_us(void)
{
    uint64_t per_second;
    __asm__("mrs %0, cntfrq_el0" : "=r"(per_second));
    return per_second / 2000000 + 1;
}

#endif
