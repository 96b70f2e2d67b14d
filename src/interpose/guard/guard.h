/* src/interpose/guard/guard.h: guard mode: a task cannot write to another's memory by mistake.
 *
 * The task's own memory gets its protection key as it is mapped, its threads the rights for that
 * (space/interposition.h). The kernel enters every signal handler with the right to key 0 alone,
 * which not even the handler's stack has: so the kernel has our handler for all signals, and that
 * gives the task's rights before the program's runs. docs/internals/guard.md has what the kernel
 * does.
 *
 * A task that is not guarded never runs any of this: a guarded one's trampolines name other
 * handlers (interpose_init_data). Where the CPU is of a kind without keys (ARCH_HAS_KEYS) none of
 * these functions is defined, and no task is guarded. Freestanding. */
#ifndef ONESPACE_INTERPOSE_GUARD_GUARD_H
#define ONESPACE_INTERPOSE_GUARD_GUARD_H

#include <stddef.h>

#include "space/registry.h"

struct arch_patched_syscall;

/* By the root, before its first guarded task: allocates the keys. 0; -ENOTSUP: the CPU has none;
 * -ENOSYS: the kernel does not use them; -ENOSPC: the program has them all. */
long guard_alloc_keys(struct space *space);

/* By the spawner: the claimed slot's key and rights, and its record. 0 or -errno. */
long guard_init_slot(struct space *space, struct space_slot *slot);
/* Gives pages of the task its key. What cannot be changed stays as it is: then a write is missed.
 */
void guard_set_key(const struct space_slot *slot, uintptr_t start, size_t size, int prot);

/* The same for what onespace keeps in the task's range. */
void guard_set_record_keys(const struct space_slot *slot);

/* The signal handler of guarded tasks, given the address of their page of trampolines. */
uintptr_t guard_trampoline(uintptr_t trampolines);

/* By the child, before its program: what it may do from now on. */
void guard_apply_rights(const struct space_slot *self);
/* The same, and our handlers for those signals that always have one. */
void guard_install_handlers(struct space_slot *self);

/* In place of interpose_dispatch and interpose_call. */
long guard_dispatch(const struct arch_patched_syscall *call, const long arguments[6]);
long guard_call(struct space_slot *self, long nr, const long arguments[6]);

/* rt_sigaction of any signal but SIGSEGV and SIGBUS. */
long guard_sigaction(struct space_slot *self, const long arguments[6]);
/* arch_handlers.fault, for all signals: with the right to all memory, and leaves with the task's.
 */
uintptr_t guard_signal(int signal, void *information, void *context, void *slot);

/* SIGSEGV for memory of a key that the interrupted code may not use: whether it may now go on. Else
 * the violation, if it is one of ours, was reported. */
int guard_violated(struct space_slot *self, const void *information, void *context);

#endif
