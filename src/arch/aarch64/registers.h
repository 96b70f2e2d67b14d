/* src/arch/aarch64/registers.h: saved registers: of a stopped thread, as in ptrace and core files,
 * and of code that a signal has interrupted (a ucontext_t). Freestanding. */
#ifndef ONESPACE_ARCH_REGISTERS_H
#define ONESPACE_ARCH_REGISTERS_H

#include <elf.h>
#include <stdint.h>
#include <sys/user.h>
#include <ucontext.h>

typedef struct user_fpsimd_struct arch_float_registers;

/* Those that are neither integer nor floating-point registers: the kernel's name for the set. The
 * thread pointer is one, without which debuggers see no thread-local storage. */
#define ARCH_MORE_REGISTERS NT_ARM_TLS

static inline uintptr_t arch_instruction_of(const struct user_regs_struct *registers)
{
    return registers->pc;
}

/* An address in memory that is the thread's own: its stack. */
static inline uintptr_t arch_own_address_of(const struct user_regs_struct *registers)
{
    return registers->sp;
}

/* The instruction that was interrupted. */
static inline uintptr_t arch_interrupted_at(const void *context)
{
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.pc;
}

/* Makes the interrupted code continue in `function`, as if it had been called with the stack ending
 * at `stack`, a multiple of 16, and these arguments. It must not return. */
static inline void arch_continue_in(void *context, uintptr_t function, uintptr_t stack,
                                    uintptr_t first, long second)
{
    mcontext_t *registers = &((ucontext_t *)context)->uc_mcontext;
    registers->pc = function;
    registers->sp = stack;
    registers->regs[0] = first;
    registers->regs[1] = (uint64_t)second;
    registers->pstate &= ~UINT64_C(0xc00); /* no branch type left over that BTI would look at */
}

#endif
