/* src/registry/guard.h: guard mode: the protection keys of a space, and what a member may do.
 *
 * A guarded task's own memory has a key: of the first tasks each its own, beyond that in rotation.
 * Its threads may write to memory of that key and of key 0, and read all. Key 0 has what is meant
 * to be shared: the registry, whatever lies in slot 0's range, shared mappings, and the memory of
 * the root and of members that are not guarded. */
#ifndef ONESPACE_REGISTRY_GUARD_H
#define ONESPACE_REGISTRY_GUARD_H

#include <stdatomic.h>
#include <stdint.h>

#include "arch/keys.h"

/* So many tasks have a key of their own. One is left for programs that use keys themselves. */
enum { SPACE_GUARD_KEYS = 14 };

/* Written by the root before its first guarded task, but for `count`, which it stores last, with
 * release; constant then. */
struct space_guard {
    _Atomic uint32_t count;       /* keys in rotation; 0: no task is guarded. Readers acquire it. */
    uint32_t no_access, no_write; /* all of these keys' bits in a thread's rights */
    uint32_t saved_at;            /* for arch_saved_rights */
    /* Whether handlers are entered with all signals blocked: where the kernel cannot deliver a
     * second signal before the first one's handler has the right to its stack. */
    uint32_t blocks_signals;
    uint8_t keys[SPACE_GUARD_KEYS];
    uint8_t unused[2];
};

/* Lets the calling thread access and change all tasks' memory: the rights that it had, for
 * guard_close. Nothing happens where no task is guarded. */
static inline uint32_t guard_open(const struct space_guard *guard)
{
#if ARCH_HAS_KEYS
    if (atomic_load_explicit(&guard->count, memory_order_acquire) == 0)
        return 0;
    uint32_t rights = arch_rights();
    arch_set_rights(rights & ~(guard->no_access | guard->no_write));
    return rights;
#else
    (void)guard;
    return 0;
#endif
}

static inline void guard_close(const struct space_guard *guard, uint32_t rights)
{
#if ARCH_HAS_KEYS
    if (atomic_load_explicit(&guard->count, memory_order_acquire))
        arch_set_rights(rights);
#else
    (void)guard, (void)rights;
#endif
}

#endif
