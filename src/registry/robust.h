/* src/registry/robust.h: the membership mark of a task's main thread. */
#ifndef ONESPACE_REGISTRY_ROBUST_H
#define ONESPACE_REGISTRY_ROBUST_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A robust futex of the task's main thread, linked into its libc's own list by the agent. The
 * kernel sets FUTEX_OWNER_DIED in the word when that thread ends or the task executes another
 * program. The distance from `next` to the word is the libc's (glibc 32 bytes, musl 28), hence the
 * array. */
struct space_robust {
    _Atomic uint32_t words[14]; /* words[at] is TID | FUTEX_WAITERS */
    uintptr_t previous, next;   /* of the list: addresses of `next` fields, as both libcs have it */
    _Atomic uint32_t at;        /* index of the word + 1; 0: no agent */
    uint32_t unused;
};

static_assert(offsetof(struct space_robust, previous) == 56, "next - 8, as both libcs have it");

#endif
