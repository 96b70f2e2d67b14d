/* src/arch/aarch64/copy.c: makes a guarded copy return after a fault. */
#include <stdint.h>
#include <ucontext.h>

#include "arch/copy.h"

extern const char arch_guarded_copy_end[], arch_guarded_copy_failed[];

int arch_fault_recover(void *context)
{
    mcontext_t *registers = &((ucontext_t *)context)->uc_mcontext;
    uintptr_t at = registers->pc;
    if (at < (uintptr_t)arch_guarded_copy || at >= (uintptr_t)arch_guarded_copy_end)
        return 0;
    registers->pc = (uintptr_t)arch_guarded_copy_failed;
    return 1;
}
