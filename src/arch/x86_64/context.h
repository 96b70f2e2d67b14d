/* src/arch/x86_64/context.h: what a signal handler's third argument, a ucontext_t, says.
 * Freestanding. */
#ifndef ONESPACE_ARCH_CONTEXT_H
#define ONESPACE_ARCH_CONTEXT_H

#include <stdint.h>
#include <ucontext.h>

/* The instruction that was interrupted. */
static inline uintptr_t arch_interrupted_at(const void *context)
{
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

/* Makes the interrupted code continue in `function`, as if it had been called with the stack ending
 * at `stack`, a multiple of 16, and these arguments. It must not return. */
static inline void arch_continue_in(void *context, uintptr_t function, uintptr_t stack,
                                    uintptr_t first, long second)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    registers[REG_RIP] = (greg_t)function;
    registers[REG_RDI] = (greg_t)first;
    registers[REG_RSI] = second;
    registers[REG_RSP] = (greg_t)(stack - 8);
}

#endif
