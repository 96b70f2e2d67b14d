/* src/arch/x86_64/registers.h: saved registers: of a stopped thread, as in ptrace and core files,
 * and of code that a signal has interrupted (a ucontext_t). Freestanding. */
#ifndef ONESPACE_ARCH_REGISTERS_H
#define ONESPACE_ARCH_REGISTERS_H

#include <elf.h>
#include <stdint.h>
#include <sys/user.h>
#include <ucontext.h>

typedef struct user_fpregs_struct arch_float_registers;

/* Those that are neither integer nor floating-point registers: the kernel's name for the set. */
#define ARCH_MORE_REGISTERS NT_X86_XSTATE

static inline uintptr_t arch_instruction_of(const struct user_regs_struct *registers)
{
    return registers->rip;
}

/* An address in memory that is the thread's own: its thread pointer. */
static inline uintptr_t arch_own_address_of(const struct user_regs_struct *registers)
{
    return registers->fs_base;
}

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
