/* pip/pip_machdep.h: spin locks and atomic words for members of a space, as programs of
 * Process-in-Process 2.4 use them. They are words in memory that all share: a lock whose holder
 * ends stays locked (pip_mutex_t is taken over). */
#ifndef PIP_PIP_MACHDEP_H
#define PIP_PIP_MACHDEP_H

#include <stdint.h>

#ifndef INLINE
#define INLINE inline static
#endif

#define PIP_CACHEBLK_SZ 64

typedef volatile uint32_t pip_spinlock_t; /* 0: free */
typedef volatile intptr_t pip_atomic_t;

INLINE void pip_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

INLINE void pip_memory_barrier(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

INLINE void pip_write_barrier(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* 1: it is the caller's now. Acquire pairs with the release of pip_spin_unlock. */
INLINE int pip_spin_trylock(pip_spinlock_t *lock)
{
    uint32_t is_free = 0;
    return __atomic_compare_exchange_n(lock, &is_free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

INLINE void pip_spin_lock(pip_spinlock_t *lock)
{
    while (!pip_spin_trylock(lock))
        pip_pause();
}

/* The same with a value of the caller's own in the lock; trylock_wv gives what was there. */
INLINE uint32_t pip_spin_trylock_wv(pip_spinlock_t *lock, uint32_t value)
{
    uint32_t found = 0;
    __atomic_compare_exchange_n(lock, &found, value, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    return found;
}

INLINE void pip_spin_lock_wv(pip_spinlock_t *lock, uint32_t value)
{
    while (pip_spin_trylock_wv(lock, value) != 0)
        pip_pause();
}

INLINE void pip_spin_unlock(pip_spinlock_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

INLINE void pip_spin_init(pip_spinlock_t *lock)
{
    pip_spin_unlock(lock);
}

INLINE void pip_spin_destroy(pip_spinlock_t *lock)
{
    (void)lock;
}

/* 1: *word was old_value and is new_value now. */
INLINE int pip_comp_and_swap(pip_atomic_t *word, intptr_t old_value, intptr_t new_value)
{
    return __atomic_compare_exchange_n(word, &old_value, new_value, 0, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

INLINE int pip_comp2_and_swap(pip_atomic_t *word, intptr_t old_value, intptr_t new_value)
{
    return *word == old_value && pip_comp_and_swap(word, old_value, new_value);
}

INLINE intptr_t pip_atomic_fetch_and_add(pip_atomic_t *word, intptr_t value)
{
    return __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
}

INLINE intptr_t pip_atomic_sub_and_fetch(pip_atomic_t *word, intptr_t value)
{
    return __atomic_sub_fetch(word, value, __ATOMIC_SEQ_CST);
}

#endif
