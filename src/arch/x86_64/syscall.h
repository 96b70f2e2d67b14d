/* src/arch/x86_64/syscall.h: system calls without libc, and the CPU's pause and clock.
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
    register long r10 __asm__("r10") = a4;
    register long r8 __asm__("r8") = a5;
    register long r9 __asm__("r9") = a6;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(nr), "D"(a1), "S"(a2), "d"(a3), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory", "cc");
    return result;
}
#endif

static inline void arch_pause(void)
{
    __asm__ volatile("pause" ::: "memory");
}

/* A clock of about a nanosecond, for comparisons of short spans on one CPU. Unordered: the CPU may
 * read it a few instructions early or late, and a hypervisor may let it advance in larger steps. */
static inline uint64_t arch_ticks(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}
/* About half a microsecond, of a CPU of 1.5 to 4 GHz. */
static inline uint64_t arch_ticks_of_half_us(void)
{
    return 1000;
}

#endif
