/* src/arch/x86_64/code/scan.h: read code that is not aligned, and look for bytes
 * eight at a time. Vector registers would do better, but are
 * not ours to use on a task's thread. Freestanding. */
#ifndef ONESPACE_ARCH_SCAN_H
#define ONESPACE_ARCH_SCAN_H

#include <stddef.h>
#include <stdint.h>

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

/* The top bit of each byte of `word` that is `value`. Bytes behind such a one may be marked too. */
static inline uint64_t scan_equal(uint64_t word, unsigned char value)
{
    uint64_t difference = word ^ SCAN_EACH * value;
    return (difference - SCAN_EACH) & ~difference & SCAN_EACH * 0x80;
}

/* Takes the first mark: which byte it is of. */
static inline unsigned scan_next(uint64_t *marks)
{
    unsigned byte = (unsigned)__builtin_ctzll(*marks) / 8;
    *marks &= *marks - 1;
    return byte;
}

#endif
