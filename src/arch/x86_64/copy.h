/* src/arch/x86_64/copy.h: copies that may fault. Freestanding. */
#ifndef ONESPACE_ARCH_COPY_H
#define ONESPACE_ARCH_COPY_H

#include <stddef.h>

#define ARCH_DETECTS 1

/* Copies size bytes forward: 0, or -1 if a load or a store faulted and arch_fault_recover ended the
 * copy. The wide one is faster but clobbers vector registers, as any function call may: only for
 * patch sites inside functions of a libc. */
int arch_guarded_copy(void *to, const void *from, size_t size);
int arch_guarded_copy_wide(void *to, const void *from, size_t size);
/* Lets arch_guarded_copy_wide use the instructions of this CPU. Called once, by the root. */
extern unsigned char arch_has_avx __attribute__((visibility("hidden")));
static inline void arch_detect(void)
{
    __builtin_cpu_init();
    /* Also tests XCR0: the kernel saves these registers. */
    arch_has_avx = __builtin_cpu_supports("avx2") != 0;
}
/* Called by the handler for SIGSEGV and SIGBUS: if the interrupted context (a ucontext_t) is inside
 * a guarded copy, makes that copy return -1 and returns 1; else 0. */
int arch_fault_recover(void *context);

#endif
