/* src/interpose/guard/record.h: what a guarded task's handlers remember, in its own range. */
#ifndef ONESPACE_INTERPOSE_GUARD_RECORD_H
#define ONESPACE_INTERPOSE_GUARD_RECORD_H

#include "base/raw.h"
#include "space/registry.h"

enum { GUARD_PLACES = 64 };

struct guard_record {
    /* The handlers that the program has set: of signal n at n - 1. Changed with the task's lock
     * held; read by handlers, whose thread may find the next one already: as with the kernel's. */
    struct space_sigaction actions[SIGNAL_MAX];
    /* --guard=report: instructions that were reported. By any thread, 0 -> address; relaxed. */
    _Atomic uintptr_t reported[GUARD_PLACES];
    /* Sticky: the program has set a seccomp filter, which may end it for calls that it does not
     * make itself: no more memory gets a key. Relaxed, by any thread. */
    _Atomic uint32_t is_filtered;
};

static inline struct guard_record *guard_record(const struct space_slot *self)
{
    return (struct guard_record *)(layout_range(slot_index(space_registry(), self)) + LAYOUT_GUARD);
}

#endif
