/* src/arch/x86_64/syscall.h: system calls without libc.
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

#endif
