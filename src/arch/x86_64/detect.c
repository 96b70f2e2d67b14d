/* src/arch/x86_64/detect.c: what this CPU can do. */
#include "arch/copy.h"

extern unsigned char arch_has_avx __attribute__((visibility("hidden")));
unsigned char arch_has_avx;

void arch_detect(void)
{
    __builtin_cpu_init();
    /* Also tests XCR0: the kernel saves these registers. */
    arch_has_avx = __builtin_cpu_supports("avx2") != 0;
}
