/* fnv.h: the hash FNV-1a, 64 bits, by which guests print results that are compared between runs. */
#ifndef ONESPACE_TESTS_MPI_GUESTS_FNV_H
#define ONESPACE_TESTS_MPI_GUESTS_FNV_H

#include <stdint.h>

#define FNV_SEED UINT64_C(14695981039346656037)

static inline uint64_t fnv_byte(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * UINT64_C(1099511628211);
}

#endif
