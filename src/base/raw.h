/* src/base/raw.h: system calls without libc, and what they take: signal masks, ranges of
 * descriptors, sets of CPUs. Freestanding.
 *
 * raw() returns the kernel's value: a result or -errno. It touches neither errno nor any other
 * thread-local storage, so it may be used on a task's thread before its libc is ready. */
#ifndef ONESPACE_BASE_RAW_H
#define ONESPACE_BASE_RAW_H

#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>

#include "arch/constants.h"
#include "arch/syscall.h"

/* Newer than the headers of some systems; the same number on all CPUs. */
#ifndef __NR_io_uring_register
#define __NR_io_uring_register 427
#endif
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

/* Whether the result is -errno. Addresses and sizes are never among the last 4,095 values. */
static inline int raw_failed(long result)
{
    return (unsigned long)result >= -4095ul;
}

/* ---- Signal masks: bit n - 1 is signal n ---- */

enum { SIGNAL_MAX = 64 };

#define SIGNAL_MASK_ALL (~UINT64_C(0))

static inline uint64_t signal_bit(int signal)
{
    return UINT64_C(1) << (signal - 1);
}

/* Sets the calling thread's mask and returns the old one. */
static inline uint64_t signals_set_mask(uint64_t mask)
{
    uint64_t old = 0;
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &mask, &old, ARCH_SIGNAL_SET_BYTES);
    return old;
}

/* ---- Descriptors ---- */

/* Upper bound for closing descriptors one by one. */
static inline unsigned descriptors_limit(void)
{
    struct rlimit limit = {1024, 1024};
    raw(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, &limit);
    return limit.rlim_cur > 65536 ? 65536 : (unsigned)limit.rlim_cur;
}

/* Closes `first` to `last`, both included; `last` = ~0u closes all from `first` on. glibc has this
 * function since 2.34. */
static inline void descriptors_close_range(unsigned first, unsigned last)
{
#ifdef __NR_close_range
    if (raw(__NR_close_range, first, last, 0) == 0)
        return;
#endif
    unsigned end = descriptors_limit(); /* before Linux 5.9 */
    for (unsigned fd = first; fd <= last && fd < end; fd++)
        raw(__NR_close, fd);
}

/* ---- Sets of CPUs, as sched_getaffinity writes them; large enough for any kernel ---- */

enum { CPU_MASK_MAX = 8192 };

struct cpu_mask {
    uint64_t words[CPU_MASK_MAX / 64];
};

static inline void cpu_mask_or(struct cpu_mask *cpus, const struct cpu_mask *added)
{
    for (unsigned i = 0; i < CPU_MASK_MAX / 64; i++)
        cpus->words[i] |= added->words[i];
}

static inline int cpu_mask_count(const struct cpu_mask *cpus)
{
    int count = 0;
    for (unsigned i = 0; i < CPU_MASK_MAX / 64; i++)
        count += __builtin_popcountll(cpus->words[i]);
    return count;
}

#endif
