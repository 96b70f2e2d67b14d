/* src/base/hash.h: FNV-1a, 64 bits. Freestanding. */
#ifndef ONESPACE_BASE_HASH_H
#define ONESPACE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_SEED UINT64_C(14695981039346656037)

static inline uint64_t hash_byte(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * UINT64_C(1099511628211);
}

/* `hash` is HASH_SEED, or the hash of what comes before. The terminating zero is not hashed. */
static inline uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = hash_byte(hash, (unsigned char)*text);
    return hash;
}

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    for (const unsigned char *at = (const unsigned char *)bytes; size > 0; at++, size--)
        hash = hash_byte(hash, *at);
    return hash;
}

#endif
