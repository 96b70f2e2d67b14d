/* src/base/shared_header.h: what a structure that crosses programs begins with.
 *
 * Programs of one space may carry different versions of the library. Before a program uses a
 * structure that another one made, it compares the header with the one that it would write itself.
 * The hash covers offset and size of every field, so that a layout that changed without a new ABI
 * number is noticed as well. Freestanding. */
#ifndef ONESPACE_BASE_SHARED_HEADER_H
#define ONESPACE_BASE_SHARED_HEADER_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

struct shared_header {
    uint64_t magic;  /* which structure it is */
    uint32_t abi;    /* raised when fields change their meaning */
    uint32_t size;   /* of the structure, in bytes */
    uint64_t layout; /* of its fields, and of those of structures in it */
};

/* Rows of a table of fields, ROW(type, field, offset, bytes), become assertions and, as numbers,
 * what is hashed. */
#define SHARED_ASSERT(type, field, at, bytes)                                                      \
    static_assert(offsetof(type, field) == (at) && sizeof(((type *)0)->field) == (bytes),          \
                  #type ": " #field " moved: raise the ABI number and correct the table");
#define SHARED_NUMBERS(type, field, at, bytes) at, bytes,

/* The header that this version writes for `type`, whose fields are in the table ROWS. */
#define SHARED_HEADER(magic, abi, type, ROWS)                                                      \
    __extension__({                                                                                \
        static const uint32_t numbers[] = {ROWS(SHARED_NUMBERS)};                                  \
        (struct shared_header){magic, abi, sizeof(type),                                           \
                               shared_layout(numbers, sizeof(numbers) / sizeof(numbers[0]))};      \
    })

static inline uint64_t shared_layout(const uint32_t *numbers, size_t count)
{
    uint64_t hash = HASH_SEED;
    for (size_t i = 0; i < count; i++)
        for (unsigned shift = 0; shift < 32; shift += 8)
            hash = hash_byte(hash, (unsigned char)(numbers[i] >> shift));
    return hash;
}

static inline int shared_header_matches(const struct shared_header *found,
                                        const struct shared_header *own)
{
    return found->magic == own->magic && found->abi == own->abi && found->size == own->size &&
           found->layout == own->layout;
}

/* For a structure that begins as zeroes and that any member may be the first to use: writes the
 * header, or finds what another one wrote. 0 when that is another version's. `layout` decides, by
 * compare-and-swap; the rest is written by all that agree on it, with the same values. */
static inline int shared_header_claim(struct shared_header *place, const struct shared_header *own)
{
    uint64_t found = 0;
    if (!__atomic_compare_exchange_n(&place->layout, &found, own->layout, 0, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST) &&
        found != own->layout)
        return 0;
    __atomic_store_n(&place->magic, own->magic, __ATOMIC_RELAXED);
    __atomic_store_n(&place->abi, own->abi, __ATOMIC_RELAXED);
    __atomic_store_n(&place->size, own->size, __ATOMIC_RELAXED);
    return 1;
}

/* Appends "magic 0x…, ABI 1, 123 bytes, layout 0x…" to a text that has room for SHARED_TEXT more
 * bytes, and returns its end. */
enum { SHARED_TEXT = 96 };
char *shared_header_describe(char *text, const struct shared_header *header);

/* Says on standard error that `own_file` cannot use what `found_file` made: both sides' headers and
 * files. `what` names the structure, as in "registry". */
void shared_header_report(const char *what, const struct shared_header *found,
                          const char *found_file, const struct shared_header *own,
                          const char *own_file);

#endif
