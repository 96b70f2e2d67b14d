/* src/base/futex.h: futexes between members. Private ones: the key is the address space. */
#ifndef ONESPACE_BASE_FUTEX_H
#define ONESPACE_BASE_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/raw.h"

static inline uint64_t futex_now_ns(void)
{
    struct timespec now;
    raw(__NR_clock_gettime, CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The moment (CLOCK_MONOTONIC, ns) at which a timeout in ms ends; UINT64_MAX: never. */
static inline uint64_t futex_deadline(int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : futex_now_ns() + (uint64_t)timeout_ms * 1000000u;
}

/* Sleeps while *word == value, until the deadline or a signal. 0 or -errno (-EAGAIN, -EINTR,
 * -ETIMEDOUT); whatever the result, callers test their condition again. */
static inline long futex_wait(const void *word, uint32_t value, uint64_t deadline)
{
    struct timespec until = {(time_t)(deadline / 1000000000u), (long)(deadline % 1000000000u)};
    return raw(__NR_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value,
               deadline == UINT64_MAX ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
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

/* Increments a word that others wait on and wakes all of them. Release, pairs with the waiters'
 * acquire load of the word: they see what was written before. */
static inline void futex_bump(_Atomic uint32_t *word)
{
    atomic_fetch_add_explicit(word, 1, memory_order_release);
    futex_wake(word, INT32_MAX);
}

#endif
