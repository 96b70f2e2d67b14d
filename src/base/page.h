/* src/base/page.h: rounding to pages and other powers of two. Freestanding. */
#ifndef ONESPACE_BASE_PAGE_H
#define ONESPACE_BASE_PAGE_H

#include <stdint.h>

#include "arch/constants.h"

/* To the next multiple of `to`, a power of two; wraps to 0 beyond the last one. */
static inline uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) & -to;
}

static inline uint64_t page_floor(uint64_t value)
{
    return value & -(uint64_t)ARCH_PAGE;
}

static inline uint64_t page_ceiling(uint64_t value)
{
    return round_up(value, ARCH_PAGE);
}

#endif
