/* src/base/raw.h: system calls without libc, and whether one failed.
 *
 * raw() returns the kernel's value: a result or -errno. It touches neither errno nor any other
 * thread-local storage, so it may be used on a task's thread before or beside its own libc. */
#ifndef ONESPACE_BASE_RAW_H
#define ONESPACE_BASE_RAW_H

#include "arch/syscall.h"

/* Newer than some systems' headers; of all CPUs the same. */
#ifndef __NR_mseal
#define __NR_mseal 462
#endif

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

/* Whether the kernel's value is -errno. Addresses and sizes are never in the last 4,095 values. */
static inline int raw_failed(long result)
{
    return (unsigned long)result >= -4095ul;
}

#endif
