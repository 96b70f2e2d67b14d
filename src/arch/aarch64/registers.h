/* src/arch/aarch64/registers.h: the registers of a stopped thread, as ptrace and core files have
 * them. */
#ifndef ONESPACE_ARCH_REGISTERS_H
#define ONESPACE_ARCH_REGISTERS_H

#include <elf.h>
#include <stdint.h>
#include <sys/user.h>

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

#endif
