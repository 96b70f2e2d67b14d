/* src/arch/aarch64/code/patch.c: find system calls in machine code and turn them into jumps.
 *
 * Compilers and hand-written assembly load the number some instructions before the call:
 *     d2801bc8        mov x8, #222          (or w8)
 *     ...
 *     d4000001        svc #0
 * The call becomes a branch to a trampoline. No other instruction changes, so branches to the call
 * are harmless. The trampoline reads the number in x8 when it runs (trampoline.S): the search only
 * decides which calls get a trampoline.
 *
 * Instructions have four bytes and are aligned. Data between functions may look like a call, but is
 * never executed. */
#include "arch/code/patch.h"

enum { LOOK_BACK = 24 }; /* instructions between the number and the call */

/* Instructions that do not continue at the next one: b, br, blr, ret, bl. A call changes x8. */
static int ends_run(uint32_t word)
{
    return (word & 0x7c000000u) == 0x14000000u || (word & 0xfe000000u) == 0xd6000000u;
}

/* Loads, and computations with one result, name it in their lowest five bits; branches have a
 * condition or a source there. */
static int may_change_x8(uint32_t word)
{
    int is_store =
        (word & 0x0a400000u) == 0x08000000u; /* no load; vector registers are none of it */
    int is_branch = (word & 0x7c000000u) == 0x34000000u || (word & 0xff000000u) == 0x54000000u;
    return (word & 31) == 8 && !is_store && !is_branch;
}

/* The number that `movz x8` or `movz w8` loads, or -1. */
static long number_of(uint32_t word)
{
    return (word & 0x7fe0001fu) == 0x52800008u ? (long)(word >> 5 & 0xffff) : -1;
}

static long find_number(const unsigned char *code, size_t call)
{
    for (size_t at = call, looked = 0; at >= 4 && looked < LOOK_BACK; looked++) {
        at -= 4;
        uint32_t word = instruction_at(code + at);
        long number = number_of(word);
        if (number >= 0)
            return number;
        if (ends_run(word) || may_change_x8(word))
            return -1;
    }
    return -1;
}

size_t arch_next_patch_site(const unsigned char *code, size_t size, size_t from,
                            struct arch_patch_site *site)
{
    size_t skew = (uintptr_t)code % 4; /* of a buffer; code itself is aligned */
    for (size_t at = ((from + skew + 3) & ~(size_t)3) - skew; at + 4 <= size; at += 4) {
        if (instruction_at(code + at) != INSTRUCTION_SVC)
            continue;
        long number = find_number(code, at);
        if (number < 0)
            continue;
        *site = (struct arch_patch_site){.nr = number, .length = ARCH_PATCH_SITE_BYTES};
        return at;
    }
    return size;
}

int arch_patch_syscall(uintptr_t address, const struct arch_patch_site *site, uintptr_t trampoline)
{
    int64_t distance = (int64_t)(trampoline - address);
    (void)site;
    if (distance < -BRANCH_REACH || distance >= BRANCH_REACH)
        return -1;
    *(volatile uint32_t *)address = 0x14000000u | ((uint32_t)(distance >> 2) & 0x03ffffffu);
    instructions_written(address, ARCH_PATCH_SITE_BYTES);
    return 0;
}
