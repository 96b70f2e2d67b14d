/* src/interpose/signals.h: SIGSEGV and SIGBUS shared between our copies and the program. */
#ifndef ONESPACE_INTERPOSE_SIGNALS_H
#define ONESPACE_INTERPOSE_SIGNALS_H

#include "registry/space.h"

/* SIGSEGV, SIGBUS: in the order of space_interpose.actions. */
extern const int interpose_fault_signals[2];

/* Puts our handlers for SIGSEGV and SIGBUS in place; by the child itself, before its program. */
void interpose_install_handlers(struct space_slot *self);
/* Installs our handler for `signal`, with the flags and mask that the program set for its own. */
long interpose_install_handler(struct space_slot *self, int signal);

/* arch_handlers.fault: 0 if the fault was in one of our copies, or if the default action was
 * restored; else the program's own handler. */
uintptr_t interpose_fault(int signal, void *information, void *context, void *slot);

#endif
