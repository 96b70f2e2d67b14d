/* fnv.h: the hash FNV-1a, 64 bits, by which guests print results that are compared between runs. */
#ifndef ONESPACE_TESTS_MPI_COLLECTIVES_GUESTS_FNV_H
#define ONESPACE_TESTS_MPI_COLLECTIVES_GUESTS_FNV_H

#include <stddef.h>
#include <stdint.h>

#define FNV_SEED UINT64_C(14695981039346656037)

static inline uint64_t fnv(uint64_t hash, const void *data, size_t bytes)
{
    for (const unsigned char *at = data; bytes; bytes--)
        hash = (hash ^ *at++) * UINT64_C(1099511628211);
    return hash;
}

#endif
