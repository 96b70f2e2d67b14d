/* src/arch/aarch64/code/patch.h: patch sites (cpu/interface.h), and jumps over code. */
#ifndef ONESPACE_ARCH_PATCH_H
#define ONESPACE_ARCH_PATCH_H

#include <stddef.h>
#include <stdint.h>

#include "arch/code/instructions.h"
#include "arch/trampoline.h"
#include "cpu/interface.h"

enum {
    ARCH_PATCH_SITE_BYTES = 4,
    ARCH_JUMP_BYTES = 16, /* of arch_write_jump, which reaches everything */
    ARCH_PATCH_READS = 0, /* arch_patch_syscall writes only: it knows what was there */
};

/* How far code may lie from the trampolines. */
#define ARCH_PATCH_REACH ((size_t)BRANCH_REACH)

/* Where the patch site at `address` resumes, and how. */
static inline void arch_set_resume(struct arch_patched_syscall *call, uintptr_t address,
                                   const struct arch_patch_site *site)
{
    call->resume = address + site->length;
    call->scratch = site->displaced;
}

/* Writes a jump to `target` over the ARCH_JUMP_BYTES at the writable `address`, the beginning of a
 * function: 0. */
static inline int arch_write_jump(uintptr_t address, uintptr_t target)
{
    volatile uint32_t *code = (volatile uint32_t *)address;
    code[0] = 0x58000050u; /* ldr x16, what follows the branch */
    code[1] = 0xd61f0200u; /* br x16 */
    code[2] = (uint32_t)target;
    code[3] = (uint32_t)((uint64_t)target >> 32);
    instructions_written(address, ARCH_JUMP_BYTES);
    return 0;
}

#endif
