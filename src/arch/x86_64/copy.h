/* src/arch/x86_64/copy.h: copies that may fault. Freestanding. */
#ifndef ONESPACE_ARCH_COPY_H
#define ONESPACE_ARCH_COPY_H

#include <stddef.h>

#define ARCH_DETECTS 1

/* Copies size bytes forward; 0, or -1 when a load or a store faulted and arch_fault_recover ended
 * the copy. The second is the faster one, but clobbers vector registers as any function call may:
 * only for patch sites inside functions of a libc. */
int arch_guarded_copy(void *to, const void *from, size_t size);
int arch_guarded_copy_wide(void *to, const void *from, size_t size);
/* Lets arch_guarded_copy_wide use what this CPU has. Called once, by the root; uses its libc. */
void arch_detect(void);
/* Called by the handler for SIGSEGV and SIGBUS: if the interrupted context (a ucontext_t) is inside
 * a guarded copy, makes that copy return -1 and returns 1; else 0. */
int arch_fault_recover(void *context);

#endif
