/* src/arch/x86_64/copy.c: makes a guarded copy return after a fault. */
#include <stdint.h>
#include <ucontext.h>

#include "arch/copy.h"

extern const char arch_guarded_copy_end[], arch_guarded_copy_failed[];
extern const char arch_guarded_copy_wide_failed[];

int arch_fault_recover(void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t at = (uintptr_t)registers[REG_RIP];
    if (at < (uintptr_t)arch_guarded_copy || at >= (uintptr_t)arch_guarded_copy_end)
        return 0;
    registers[REG_RIP] =
        (greg_t)(uintptr_t)(at < (uintptr_t)arch_guarded_copy_wide ? arch_guarded_copy_failed
                                                                   : arch_guarded_copy_wide_failed);
    return 1;
}
