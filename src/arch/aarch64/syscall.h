/* src/arch/aarch64/syscall.h: system calls without libc.
 *
 * Each returns the kernel's value: a result or -errno. They touch neither errno nor any other
 * thread-local storage, so they may run on a task's thread before or beside its own libc. */
#ifndef ONESPACE_ARCH_SYSCALL_H
#define ONESPACE_ARCH_SYSCALL_H

#include <asm/unistd.h>

#ifdef __clang_analyzer__
/* The analyzer does not see what the assembly below writes to; of a function that it does not know
 * it expects all. */
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

#endif
