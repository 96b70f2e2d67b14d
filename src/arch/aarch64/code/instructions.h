/* src/arch/aarch64/code/instructions.h: instructions that the search looks for and writes, and what
 * must be done when some were written. All have four bytes. Freestanding. */
#ifndef ONESPACE_ARCH_INSTRUCTIONS_H
#define ONESPACE_ARCH_INSTRUCTIONS_H

#include <stddef.h>
#include <stdint.h>

#define INSTRUCTION_SVC       0xd4000001u /* svc #0 */
#define INSTRUCTION_UNDEFINED 0x00000000u /* udf #0 */

enum { BRANCH_REACH = 1 << 27 }; /* of b and bl, in bytes, either way */

static inline uint32_t instruction_at(const unsigned char *code)
{
    uint32_t word;
    __builtin_memcpy(&word, code, sizeof(word));
    return word;
}

/* A signed field of `bits` bits at bit `at`, of instructions: in bytes. */
static inline int64_t instruction_distance(uint32_t word, unsigned at, unsigned bits)
{
    return (int64_t)((uint64_t)word << (64 - at - bits)) >> (64 - bits) << 2;
}

/* What was stored is fetched by this CPU, and by the others when they next synchronise (a return
 * from the kernel does): the data caches are cleaned to where instruction caches read from, these
 * are invalidated. Linux allows both instructions to programs. */
static inline void instructions_written(uintptr_t address, size_t size)
{
#ifdef __aarch64__
    uint64_t types, line;
    __asm__("mrs %0, ctr_el0" : "=r"(types));
    line = 4ull << (types >> 16 & 15);
    for (uintptr_t at = address & -line; at < address + size; at += line)
        __asm__ volatile("dc cvau, %0" ::"r"(at) : "memory");
    __asm__ volatile("dsb ish" ::: "memory");
    line = 4ull << (types & 15);
    for (uintptr_t at = address & -line; at < address + size; at += line)
        __asm__ volatile("ic ivau, %0" ::"r"(at) : "memory");
    __asm__ volatile("dsb ish\n\tisb" ::: "memory");
#else /* the search is compiled elsewhere too, for tests and fuzzing */
    (void)address, (void)size;
#endif
}

#endif
