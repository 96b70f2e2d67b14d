/* src/arch/x86_64/registers.h: the registers of a stopped thread, as ptrace and core files have
 * them. */
#ifndef ONESPACE_ARCH_REGISTERS_H
#define ONESPACE_ARCH_REGISTERS_H

#include <elf.h>
#include <stdint.h>
#include <sys/user.h>

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

#endif
