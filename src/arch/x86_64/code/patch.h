/* src/arch/x86_64/code/patch.h: find patch sites in machine code and turn them into jumps.
 * Freestanding.
 */
#ifndef ONESPACE_ARCH_PATCH_H
#define ONESPACE_ARCH_PATCH_H

#include <stddef.h>
#include <stdint.h>

#include "arch/trampoline.h"

enum {
    ARCH_PATCH_SITE_BYTES = 15, /* of the longest patch site */
    ARCH_JUMP_BYTES = 5,
    ARCH_PATCH_READS = 1, /* arch_patch_syscall reads the patch site before it writes to it */
};

/* How far code may lie from the trampolines. */
#define ARCH_PATCH_REACH (UINT64_C(1) << 31)

/* A patch site of a system call: `length` bytes, of which `displaced` in the middle must still run.
 */
struct arch_patch_site {
    long nr;
    unsigned char length, displaced;
};

/* A place in code that is to be replaced as a whole. */
struct arch_span {
    uint32_t at;
    unsigned char length;    /* 0: rejected */
    unsigned char displaced; /* of a system call; stays as it is */
};

/* Finds the next candidate at or after `from` in code[0, size): its offset, or size when there is
 * none. It may be patched unless arch_reject_unsafe() refuses it. */
size_t arch_next_patch_site(const unsigned char *code, size_t size, size_t from,
                            struct arch_patch_site *site);
/* Rejects those that may not begin with an instruction, or into whose middle a branch of the code
 * may lead. */
void arch_reject_unsafe(const unsigned char *code, size_t size, struct arch_span *spans,
                        unsigned count);
/* Turns the writable patch site at `address` into a jump to `trampoline`: 0, or -1 when out of
 * reach. */
int arch_patch_syscall(uintptr_t address, const struct arch_patch_site *site, uintptr_t trampoline);

/* Where the patch site at `address` resumes. */
static inline void arch_set_resume(struct arch_patched_syscall *call, uintptr_t address,
                                   const struct arch_patch_site *site)
{
    call->resume = address + site->length;
}

/* Finds the sequences that end in cpuid and into which no jump of the code leads: how many. */
unsigned arch_find_cpuids(const unsigned char *code, size_t size, uint32_t *offsets, unsigned most);
/* Turns the one at the writable `address` into a jump to `trampoline` and fills its record: 0 or
 * -1.
 */
int arch_patch_cpuid(uintptr_t address, struct arch_cpuid *record, uintptr_t trampoline);

/* Writes a jump to `target` over the ARCH_JUMP_BYTES at the writable `address`: 0, or -1 when it is
 * out of reach. */
static inline int arch_write_jump(uintptr_t address, uintptr_t target)
{
    volatile unsigned char *code = (volatile unsigned char *)address;
    int64_t distance = (int64_t)(target - (address + ARCH_JUMP_BYTES));
    if (distance != (int32_t)distance)
        return -1;
    code[0] = 0xe9; /* jmp rel32 */
    for (unsigned i = 0; i < 4; i++)
        code[1 + i] = (unsigned char)((uint32_t)distance >> (8 * i));
    return 0;
}

#endif
