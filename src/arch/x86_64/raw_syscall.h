/* src/arch/x86_64/raw_syscall.h: system calls without libc.
 *
 * Each returns the kernel's value: a result or -errno. They touch neither errno nor any other
 * thread-local storage, so they may run on a task's thread before or beside its own libc. */
#ifndef ONESPACE_ARCH_RAW_SYSCALL_H
#define ONESPACE_ARCH_RAW_SYSCALL_H

#include <asm/unistd.h>

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

#define RAW_PICK(_1, _2, _3, _4, _5, _6, _7, name, ...) name
#define RAW_1(nr)                                       raw_syscall6(nr, 0, 0, 0, 0, 0, 0)
#define RAW_2(nr, a)                                    raw_syscall6(nr, (long)(a), 0, 0, 0, 0, 0)
#define RAW_3(nr, a, b)                                 raw_syscall6(nr, (long)(a), (long)(b), 0, 0, 0, 0)
#define RAW_4(nr, a, b, c)                              raw_syscall6(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define RAW_5(nr, a, b, c, d)                           raw_syscall6(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define RAW_6(nr, a, b, c, d, e)                                                                   \
    raw_syscall6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define RAW_7(nr, a, b, c, d, e, f)                                                                \
    raw_syscall6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
/* raw(__NR_close, fd): one to seven arguments, the number first. */
#define raw(...)                                                                                   \
    RAW_PICK(__VA_ARGS__, RAW_7, RAW_6, RAW_5, RAW_4, RAW_3, RAW_2, RAW_1, )(__VA_ARGS__)

#endif
