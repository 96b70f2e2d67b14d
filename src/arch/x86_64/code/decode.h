/* src/arch/x86_64/code/decode.h: where instructions end and relative branches lead, and a search
 * for bytes in code. Freestanding. */
#ifndef ONESPACE_ARCH_DECODE_H
#define ONESPACE_ARCH_DECODE_H

#include <stddef.h>
#include <stdint.h>

enum { ARCH_INSTRUCTION_BYTES = 15 }; /* of the longest instruction */

struct arch_instruction {
    unsigned char length;
    unsigned char branch; /* a branch whose target follows from `distance` */
    int32_t distance;     /* of the target from the instruction's end */
};

/* Decodes the instruction at code[0, available): 0, or -1 if it is none or incomplete. Knows
 * lengths, not meanings: it accepts some bytes that the CPU refuses. */
int arch_decode(const unsigned char *code, size_t available, struct arch_instruction *instruction);

/* ---- Search for bytes, eight at a time ----
 *
 * Vector registers would be faster, but must not change on a task's thread. */

#define SCAN_EACH UINT64_C(0x0101010101010101)

static inline uint32_t scan_load_4(const unsigned char *at)
{
    uint32_t word;
    __builtin_memcpy(&word, at, sizeof(word));
    return word;
}

static inline uint64_t scan_load(const unsigned char *at)
{
    uint64_t word;
    __builtin_memcpy(&word, at, sizeof(word));
    return word;
}

/* The first `size` of the eight bytes, and zeros. */
static inline uint64_t scan_load_part(const unsigned char *at, size_t size)
{
    uint64_t word = 0;
    for (size_t i = 0; i < size; i++)
        word |= (uint64_t)at[i] << 8 * i;
    return word;
}

/* The top bit of each byte of `word` that equals `value`. Bytes after a match may be marked, too.
 */
static inline uint64_t scan_equal(uint64_t word, unsigned char value)
{
    uint64_t difference = word ^ SCAN_EACH * value;
    return (difference - SCAN_EACH) & ~difference & SCAN_EACH * 0x80;
}

/* Removes the first mark and returns the number of its byte. */
static inline unsigned scan_next(uint64_t *marks)
{
    unsigned byte = (unsigned)__builtin_ctzll(*marks) / 8;
    *marks &= *marks - 1;
    return byte;
}

#endif
