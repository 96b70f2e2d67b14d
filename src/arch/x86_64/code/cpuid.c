/* src/arch/x86_64/code/cpuid.c: find cpuid instructions in machine code and turn them into jumps.
 *
 * What is recognised, and replaced by a jump of five bytes:
 *     mov $leaf, %eax  or  mov %reg, %eax
 *     xor %ecx, %ecx   or  mov %reg, %ecx   (or neither)
 *     cpuid */
#include "arch/code/patch.h"

#include "arch/code/scan.h"

struct sequence {
    struct arch_cpuid cpuid;
    unsigned length;
};

/* mov %reg, %eax or %ecx (as `target` is 0 or 1): its length or 0. */
static unsigned match_move(const unsigned char *at, unsigned target, int16_t *source)
{
    unsigned rex = at[0] == 0x44;
    at += rex;
    if (at[0] != 0x89 || (at[1] & 0xc7) != (0xc0 | target))
        return 0;
    *source = (int16_t)((at[1] >> 3 & 7) | rex << 3);
    return 2 + rex;
}

/* At least 12 bytes from `at` are readable. */
static int match_cpuid(const unsigned char *at, struct sequence *found)
{
    struct arch_cpuid *cpuid = &found->cpuid;
    unsigned length = 5, second;
    cpuid->leaf_register = ARCH_CPUID_IMMEDIATE;
    cpuid->leaf = scan_load_4(at + 1);
    if (at[0] != 0xb8 && !(length = match_move(at, 0, &cpuid->leaf_register)))
        return 0;
    cpuid->subleaf_register = ARCH_CPUID_AS_IT_IS;
    if (at[length] == 0x31 && at[length + 1] == 0xc9) {
        cpuid->subleaf_register = ARCH_CPUID_ZERO;
        length += 2;
    } else if ((second = match_move(at + length, 1, &cpuid->subleaf_register))) {
        if (cpuid->subleaf_register == 0) /* of the leaf just loaded */
            return 0;
        length += second;
    }
    found->length = length + 2;
    return at[length] == 0x0f && at[length + 1] == 0xa2 && found->length >= 5;
}

unsigned arch_find_cpuids(const unsigned char *code, size_t size, uint32_t *offsets, unsigned most)
{
    struct arch_span spans[ARCH_CPUIDS_MAX];
    struct sequence found;
    unsigned count = 0, kept = 0;
    for (size_t at = 0; at + 16 <= size && at <= UINT32_MAX; at++) {
        if (code[at] != 0xb8 && code[at] != 0x89 && code[at] != 0x44)
            continue;
        if (count < most && count < ARCH_CPUIDS_MAX && match_cpuid(code + at, &found)) {
            spans[count++] = (struct arch_span){(uint32_t)at, (unsigned char)found.length, 0};
            at += found.length - 1; /* 44 89 .. is one move, not two */
        }
    }
    arch_strike_out(code, size, spans, count);
    for (unsigned i = 0; i < count; i++)
        if (spans[i].length)
            offsets[kept++] = spans[i].at;
    return kept;
}

int arch_patch_cpuid(uintptr_t address, struct arch_cpuid *record, uintptr_t trampoline)
{
    struct sequence found;
    if (!match_cpuid((const unsigned char *)address, &found) ||
        arch_write_jump(address, trampoline) != 0)
        return -1;
    found.cpuid.resume = address + found.length;
    *record = found.cpuid;
    return 0;
}
