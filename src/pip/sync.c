/* src/pip/sync.c: yield, barrier, mutex and the global locks. Futexes are private: tasks share one
 * address space, so they share the keys. */
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/futex.h"
#include "onespace.h"
#include "state.h"

enum { SPINS = 1000, OWNER_CHECK_MS = 100 };

/* 0, EPERM: not initialised; or EINVAL: there is no object. */
static int check(const void *object)
{
    return !state_self() ? EPERM : !object ? EINVAL : 0;
}

int pip_yield(int flag)
{
    (void)flag;
    if (!state_self())
        return EPERM;
    sched_yield();
    return 0;
}

/* ---- Barrier: the last of count_init arrivals flips gsense ---- */

int pip_barrier_init(pip_barrier_t *barrp, int n)
{
    if (check(barrp) != 0 || n <= 0)
        return state_self() ? EINVAL : EPERM;
    memset(barrp, 0, sizeof(*barrp));
    barrp->count_init = n;
    barrp->count = (uint32_t)n;
    return 0;
}

int pip_barrier_wait(pip_barrier_t *barrp)
{
    if (check(barrp) != 0 || barrp->count_init <= 0)
        return state_self() ? EINVAL : EPERM;
    int sense = barrp->gsense; /* cannot flip before the caller has arrived */
    /* Each arrival releases its thread's writes. The last arrival acquires all of them and releases
     * them by storing gsense, which the waiters acquire. */
    if (__atomic_sub_fetch(&barrp->count, 1, __ATOMIC_ACQ_REL) == 0) {
        barrp->count = (uint32_t)barrp->count_init; /* no arrival before gsense flips */
        __atomic_store_n(&barrp->gsense, !sense, __ATOMIC_RELEASE);
        futex_wake((const void *)(uintptr_t)&barrp->gsense, INT32_MAX);
        return 0;
    }
    struct spin spin = {0};
    while (__atomic_load_n(&barrp->gsense, __ATOMIC_ACQUIRE) == sense)
        if (!spin_pause(&spin, SPINS))
            futex_wait((const void *)(uintptr_t)&barrp->gsense, (uint32_t)sense, UINT64_MAX);
    return 0;
}

int pip_barrier_fin(pip_barrier_t *barrp)
{
    if (check(barrp) != 0 || barrp->count_init <= 0)
        return state_self() ? EINVAL : EPERM;
    return barrp->count != (uint32_t)barrp->count_init ? EBUSY : 0;
}

/* ---- Mutex ----
 *
 * word: 0 free, else the owner's thread id, with WAITERS when a thread may sleep. Locking and
 * unlocking change it by compare-and-swap, with acquire and release. An owner may die: waiters
 * periodically check that its thread id still exists, and one takes over the mutex if not.
 *
 * owner: the owner's id in the space + 1, because a thread id may be reused, and stays when its
 * task executes another program; 0: not known. Only the owner stores it, after it has locked and
 * before it unlocks, except that a waiter clears the id of a member that is gone: the one that does
 * may take over. */

#define WAITERS 0x80000000u
#define OWNER   0x3fffffffu

#define NO_EXPORT "onespace.pip.none" /* a name that is never exported */

static int change_word(pip_mutex_t *mutex, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(&mutex->word, &from, to, 0, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

static uint32_t own_id(void)
{
    return (uint32_t)onespace_self() + 1;
}

static void set_owner(pip_mutex_t *mutex, uint32_t owner)
{
    __atomic_store_n(&mutex->owner, owner, __ATOMIC_RELAXED);
}

/* Whether the thread that holds the mutex as `seen` is the caller. */
static int is_mine(const pip_mutex_t *mutex, uint32_t seen)
{
    uint32_t owner = __atomic_load_n(&mutex->owner, __ATOMIC_RELAXED);
    return (seen & OWNER) == (uint32_t)pip_gettid() && (owner == 0 || owner == own_id());
}

/* Whether that thread is gone, or the member that it belonged to has ended or executed another
 * program: then an import from it fails in another way than that nothing has this name. */
static int is_owner_gone(pip_mutex_t *mutex, uint32_t seen)
{
    void *ignored;
    uint32_t owner = __atomic_load_n(&mutex->owner, __ATOMIC_RELAXED);
    if (syscall(SYS_tkill, seen & OWNER, 0) != 0 && errno == ESRCH)
        return 1;
    int result = owner ? onespace_import((int)owner - 1, NO_EXPORT, &ignored, NULL, 0) : 0;
    if (result == -EOWNERDEAD && /* also if the reaper was killed */
        onespace_import(onespace_self(), NO_EXPORT, &ignored, NULL, 0) == -EOWNERDEAD)
        return 0;
    return (result == -ESRCH || result == -EOWNERDEAD) &&
           __atomic_compare_exchange_n(&mutex->owner, &owner, 0, 0, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

int pip_mutex_init(pip_mutex_t *mutex)
{
    int error = check(mutex);
    if (error)
        return error;
    memset(mutex, 0, sizeof(*mutex));
    return 0;
}

/* Sleeps while `seen` holds the mutex. Returns 1 if that owner has died and the caller has taken
 * over the mutex. */
static int await_owner(pip_mutex_t *mutex, uint32_t seen, uint32_t me)
{
    if (!(seen & WAITERS) && !change_word(mutex, seen, seen | WAITERS))
        return 0;
    seen |= WAITERS;
    if (futex_wait((const void *)(uintptr_t)&mutex->word, seen, futex_deadline(OWNER_CHECK_MS)) !=
        -ETIMEDOUT)
        return 0;
    return is_owner_gone(mutex, seen) && change_word(mutex, seen, me | WAITERS);
}

int pip_mutex_lock(pip_mutex_t *mutex)
{
    int error = check(mutex);
    if (error)
        return error;
    uint32_t me = (uint32_t)pip_gettid(), waiters = 0;
    for (struct spin spin = {0};;) {
        uint32_t seen = __atomic_load_n(&mutex->word, __ATOMIC_RELAXED);
        if (is_mine(mutex, seen))
            return EDEADLK;
        if (seen == 0) {
            if (change_word(mutex, 0, me | waiters)) {
                set_owner(mutex, own_id());
                return 0;
            }
        } else if (!spin_pause(&spin, SPINS)) {
            if (await_owner(mutex, seen, me)) {
                set_owner(mutex, own_id());
                return EOWNERDEAD;
            }
            waiters = WAITERS; /* other threads may still sleep */
        }
    }
}

int pip_mutex_unlock(pip_mutex_t *mutex)
{
    int error = check(mutex);
    if (error)
        return error;
    if (!is_mine(mutex, __atomic_load_n(&mutex->word, __ATOMIC_RELAXED)))
        return EPERM;
    set_owner(mutex, 0);
    if (__atomic_exchange_n(&mutex->word, 0, __ATOMIC_RELEASE) & WAITERS)
        futex_wake((const void *)(uintptr_t)&mutex->word, 1);
    return 0;
}

int pip_mutex_fin(pip_mutex_t *mutex)
{
    int error = check(mutex);
    if (error)
        return error;
    return __atomic_load_n(&mutex->word, __ATOMIC_RELAXED) ? EBUSY : 0;
}

/* ---- Global locks: the libc needs none here ---- */

void pip_libc_lock(void)
{
}

void pip_libc_unlock(void)
{
}

void pip_universal_lock(void)
{
    struct state *state = state_mine();
    if (state)
        (void)pip_mutex_lock(&state->universal);
}

void pip_universal_unlock(void)
{
    struct state *state = state_mine();
    if (state)
        (void)pip_mutex_unlock(&state->universal);
}
