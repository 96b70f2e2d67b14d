/* src/arch/x86_64/code/patch.h: patch sites (cpu/interface.h), and jumps over code. */
#ifndef ONESPACE_ARCH_PATCH_H
#define ONESPACE_ARCH_PATCH_H

#include <stddef.h>
#include <stdint.h>

#include "arch/trampoline.h"
#include "cpu/interface.h"

enum {
    ARCH_PATCH_SITE_BYTES = 15, /* of the longest patch site */
    ARCH_JUMP_BYTES = 5,
    ARCH_PATCH_READS = 1, /* arch_patch_syscall reads the patch site before it writes to it */
};

/* How far code may lie from the trampolines. */
#define ARCH_PATCH_REACH (UINT64_C(1) << 31)

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
