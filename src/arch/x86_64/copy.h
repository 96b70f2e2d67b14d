/* src/arch/x86_64/copy.h: copies that may fault. Freestanding. */
#ifndef ONESPACE_ARCH_COPY_H
#define ONESPACE_ARCH_COPY_H

#include "cpu/interface.h"

#define ARCH_DETECTS 1

/* Lets arch_guarded_copy_wide use the instructions of this CPU. Called once, by the root. */
extern unsigned char arch_has_avx __attribute__((visibility("hidden")));
static inline void arch_detect(void)
{
    __builtin_cpu_init();
    /* Also tests XCR0: the kernel saves these registers. */
    arch_has_avx = __builtin_cpu_supports("avx2") != 0;
}

#endif
