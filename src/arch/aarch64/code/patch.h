/* src/arch/aarch64/code/patch.h: find patch sites in machine code and turn them into jumps.
 * Freestanding.
 */
#ifndef ONESPACE_ARCH_PATCH_H
#define ONESPACE_ARCH_PATCH_H

#include <stddef.h>
#include <stdint.h>

#include "arch/code/instructions.h"
#include "arch/trampoline.h"

enum {
    ARCH_PATCH_SITE_BYTES = 4,
    ARCH_JUMP_BYTES = 16, /* of arch_write_jump, which reaches everything */
    ARCH_PATCH_READS = 0, /* arch_patch_syscall writes only: it knows what was there */
};

/* How far code may lie from the trampolines. */
#define ARCH_PATCH_REACH ((size_t)BRANCH_REACH)

/* A patch site of a system call: the instruction itself, `length` bytes. */
struct arch_patch_site {
    long nr;
    unsigned char length, displaced; /* displaced: unused, nothing is moved */
};

/* A place in code that is to be replaced as a whole. */
struct arch_span {
    uint32_t at;
    unsigned char length;    /* 0: rejected */
    unsigned char displaced; /* by arch_reject_unsafe: 16 or 17, the register that the code behind
                                it does not need */
};

/* Finds the next candidate at or after `from` in code[0, size): its offset, or size when there is
 * none. It may be patched unless arch_reject_unsafe() refuses it. */
size_t arch_next_patch_site(const unsigned char *code, size_t size, size_t from,
                            struct arch_patch_site *site);
/* Rejects those behind which the code may need both x16 and x17: the trampoline could not return.
 */
void arch_reject_unsafe(const unsigned char *code, size_t size, struct arch_span *spans,
                        unsigned count);
/* Turns the writable patch site at `address` into a jump to `trampoline`: 0, or -1 when out of
 * reach. */
int arch_patch_syscall(uintptr_t address, const struct arch_patch_site *site, uintptr_t trampoline);

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
