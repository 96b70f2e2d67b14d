/* src/interpose/signals.h: SIGSEGV and SIGBUS shared between our copies and the program. */
#ifndef ONESPACE_INTERPOSE_SIGNALS_H
#define ONESPACE_INTERPOSE_SIGNALS_H

#include "space/registry.h"

/* Puts our handlers for SIGSEGV and SIGBUS in place; by the child itself, before its program. */
void interpose_install_fault_handlers(struct space_slot *self);
/* Whether a fault of the calling thread inside a guarded copy makes the copy return -1. Otherwise
 * it kills the process: the thread blocks one of the signals, or the program ignores it. */
int interpose_can_recover(struct space_slot *self);

/* What the kernel gets for a signal with a handler of the program's: our handler, with the
 * program's mask, stack and flags, but for those that it cannot do itself. */
struct space_sigaction interpose_our_action(const struct space_slot *self,
                                            const struct space_sigaction *wanted);
/* From what the program has asked for: flags that the kernel, which has our handler, does not know.
 */
void interpose_drop_unknown_flags(struct space_sigaction *wanted, int signal);

/* arch_handlers.fault: 0 if the fault was in one of our copies, or if the default action was
 * restored; else the program's own handler. */
uintptr_t interpose_fault(int signal, void *information, void *context, void *slot);

#endif
