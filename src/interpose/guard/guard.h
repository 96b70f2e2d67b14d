/* src/interpose/guard/guard.h: guard mode: a task cannot write to another's memory by mistake.
 *
 * The task's own memory gets its protection key when it is mapped, and the task's threads get the
 * rights to that key (struct space_guard). The kernel enters every signal handler with the right to
 * key 0 only, and not even the handler's stack has that key. So the kernel has our handler for all
 * signals, which sets the task's rights before the program's handler runs. docs/internals/guard.md
 * says what the kernel does.
 *
 * A task that is not guarded never runs any of this: the trampolines of a guarded one name other
 * handlers (interpose_init_data). On a CPU without keys (ARCH_HAS_KEYS) none of these functions is
 * defined, and no task is guarded. Freestanding. */
#ifndef ONESPACE_INTERPOSE_GUARD_GUARD_H
#define ONESPACE_INTERPOSE_GUARD_GUARD_H

#include <stddef.h>

#include "base/raw.h"
#include "space/registry.h"

/* By the root, before its first guarded task: allocates the keys. 0; -ENOTSUP: the CPU has none;
 * -ENOSYS: the kernel does not use them; -ENOSPC: the program has allocated all. */
long guard_alloc_keys(struct space *space);

/* By the spawner: sets the claimed slot's key and rights, and maps its record. 0 or -errno. */
long guard_init_slot(struct space *space, struct space_slot *slot);
/* Sets the task's key on its pages. Best effort: after a failure writes by others go undetected. */
void guard_set_key(const struct space_slot *slot, uintptr_t start, size_t size, int prot);

/* The same for the records of onespace in the task's range. */
void guard_set_record_keys(const struct space_slot *slot);

/* By the child, before its program starts: sets its thread's rights. */
void guard_apply_rights(const struct space_slot *self);
/* By the child, too: installs our handlers for the signals that always have one. */
void guard_install_handlers(struct space_slot *self);

/* arch_handlers.fault, for all signals: entered with the right to all memory, returns with the
 * task's rights. */
uintptr_t guard_signal(int signal, void *information, void *context, void *slot);

/* SIGSEGV for memory of a key that the interrupted code may not use: 1 if the code may continue,
 * else 0. A write to another task's memory has been reported. */
int guard_violated(struct space_slot *self, const void *information, void *context);

enum { GUARD_REPORTS_MAX = 64 };

/* The record of a guarded task's handlers, in its own range. */
struct guard_record {
    /* The actions that the program has set: that of signal n at n - 1. Changed with the task's lock
     * held. A handler may read the next action already, as with the kernel's. */
    struct space_sigaction actions[SIGNAL_MAX];
    /* --guard=report: instructions that were reported. Written by any thread, 0 -> address;
     * relaxed. */
    _Atomic uintptr_t reported[GUARD_REPORTS_MAX];
    /* Sticky: the program has set a seccomp filter, which may kill it for calls that it does not
     * make itself. No more memory gets a key. Written by any thread, relaxed. */
    _Atomic uint32_t is_filtered;
};

static inline struct guard_record *guard_record(const struct space_slot *self)
{
    return (struct guard_record *)(layout_range(slot_index(space_registry(), self)) + LAYOUT_GUARD);
}

#endif
