/* src/base/futex.h: waiting for a word in memory: a bounded spin, then a futex with a deadline.
 * Freestanding.
 *
 * The futexes are private: the kernel's key is the address space, which all members share.
 *
 * A waiter spins as long as spin_pause or spin_pause_ns returns 1, tests its condition between two
 * calls, and sleeps when the result is 0. */
#ifndef ONESPACE_BASE_FUTEX_H
#define ONESPACE_BASE_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "arch/syscall.h"
#include "base/raw.h"

static inline uint64_t futex_now_ns(void)
{
    struct timespec now;
    raw(__NR_clock_gettime, CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The time (CLOCK_MONOTONIC, ns) at which a timeout in ms expires; UINT64_MAX: never. */
static inline uint64_t futex_deadline(int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : futex_now_ns() + (uint64_t)timeout_ms * 1000000u;
}

/* Sleeps while *word == value, until the deadline or a signal. 0 or -errno (-EAGAIN, -EINTR,
 * -ETIMEDOUT). Callers test their condition again after any result. */
static inline long futex_wait(const void *word, uint32_t value, uint64_t deadline)
{
    struct timespec until = {(time_t)(deadline / 1000000000u), (long)(deadline % 1000000000u)};
    return raw(__NR_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value,
               deadline == UINT64_MAX ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

/* Sleeps while both words have these values, until the deadline or a signal. The second futex is
 * one that the kernel wakes itself, which are not private. Returns 0 if the kernel has no such call
 * (before Linux 5.16), or a filter denies it. */
static inline int futex_wait_two(const void *word, uint32_t value, const void *kernels_word,
                                 uint32_t kernels_value, uint64_t deadline)
{
    enum { FUTEX_WAITV = 449, FUTEX_SIZE_32 = 2 }; /* which older headers lack */
    const struct {
        uint64_t value, address;
        uint32_t flags, reserved;
    } words[] = {{value, (uintptr_t)word, FUTEX_SIZE_32 | FUTEX_PRIVATE_FLAG, 0},
                 {kernels_value, (uintptr_t)kernels_word, FUTEX_SIZE_32, 0}};
    struct timespec until = {(time_t)(deadline / 1000000000u), (long)(deadline % 1000000000u)};
    long result =
        raw(FUTEX_WAITV, words, 2, 0, deadline == UINT64_MAX ? NULL : &until, CLOCK_MONOTONIC);
    return result >= 0 || result == -EAGAIN || result == -EINTR || result == -ETIMEDOUT;
}

static inline void futex_wake(const void *word, int count)
{
    raw(__NR_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
}

/* For waiters without FUTEX_PRIVATE_FLAG, which the kernel keeps in another queue. */
static inline void futex_wake_shared(const void *word, int count)
{
    raw(__NR_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

/* Increments a word and wakes all of its waiters. Release, pairs with the waiters' acquire load of
 * the word: they see what was written before. */
static inline void futex_bump(_Atomic uint32_t *word)
{
    atomic_fetch_add_explicit(word, 1, memory_order_release);
    futex_wake(word, INT32_MAX);
}

struct spin {
    unsigned count; /* pauses so far */
    uint64_t began; /* CLOCK_MONOTONIC, ns: the first call of spin_pause_ns */
};

/* Pauses the CPU once. 0, without a pause, after `limit` calls. */
static inline int spin_pause(struct spin *spin, unsigned limit)
{
    if (spin->count >= limit)
        return 0;
    spin->count++;
    arch_pause();
    return 1;
}

/* The same for `ns` since the first call. Reads the clock at every 32nd call only. */
static inline int spin_pause_ns(struct spin *spin, uint64_t ns)
{
    enum { PAUSES_PER_READING = 32 };
    if (spin->count == 0)
        spin->began = futex_now_ns();
    else if (spin->count % PAUSES_PER_READING == 0 && futex_now_ns() >= spin->began + ns)
        return 0;
    spin->count++;
    arch_pause();
    return 1;
}

/* Lets another thread run. For a lock that is held briefly, whose owner may have been preempted. */
static inline void spin_yield(void)
{
    raw(__NR_sched_yield);
}

#endif
