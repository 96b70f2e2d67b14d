/* src/base/shared_header.h: what a structure that crosses programs begins with.
 *
 * Programs of one space may carry different versions of the library. Before a program uses a
 * structure that another one made, it compares the header with its own. The tag is a hash that the
 * build computes over all headers that declare such structures (cmake/abi_tag.cmake), so any change
 * to one of them makes another version. Freestanding. */
#ifndef ONESPACE_BASE_SHARED_HEADER_H
#define ONESPACE_BASE_SHARED_HEADER_H

#include <stddef.h>
#include <stdint.h>

struct shared_header {
    uint64_t magic; /* which structure it is */
    uint32_t reserved;
    uint32_t size; /* of the structure, in bytes */
    uint64_t tag;  /* shared_abi_tag of the program that wrote it */
};

/* The tag of this build. */
uint64_t shared_abi_tag(void);

/* The header that this version writes for a structure of `size` bytes. */
static inline struct shared_header shared_header_of(uint64_t magic, size_t size)
{
    struct shared_header header = {magic, 0, (uint32_t)size, shared_abi_tag()};
    return header;
}

static inline int shared_header_matches(const struct shared_header *found,
                                        const struct shared_header *own)
{
    return found->magic == own->magic && found->size == own->size && found->tag == own->tag;
}

/* For a structure that begins as zeroes and that any member may be the first to use: writes the
 * header, or reads what another member wrote. Returns 0 if that is another version's. A
 * compare-and-swap of the tag decides; all that agree on it write the rest, with the same values.
 */
static inline int shared_header_claim(struct shared_header *place, const struct shared_header *own)
{
    uint64_t found = 0;
    if (!__atomic_compare_exchange_n(&place->tag, &found, own->tag, 0, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST) &&
        found != own->tag)
        return 0;
    __atomic_store_n(&place->magic, own->magic, __ATOMIC_RELAXED);
    __atomic_store_n(&place->size, own->size, __ATOMIC_RELAXED);
    return 1;
}

#ifndef __cplusplus /* tests in C++ include this header */
/* Maps the table at its fixed address, unless *is_mapped: sets that when the memory is there, zero.
 * The first member writes the header. 0; -ENOMEM or another -errno of mmap; or -EPROTO after a
 * report: the table is another version's. `what` names it; `owner` is the library of the space. */
long shared_table_map(_Atomic uint32_t *is_mapped, uintptr_t address, uint64_t magic, size_t size,
                      const char *what, const char *owner);
#endif

/* Appends "ABI tag 0x…" to a text that has room for SHARED_TEXT more bytes. Returns its end. */
enum { SHARED_TEXT = 32 };
char *shared_header_describe(char *text, const struct shared_header *header);

/* Reports on standard error that `own_file` cannot use what `found_file` made, with both files and
 * tags. `what` names the structure, such as "registry". */
void shared_header_report(const char *what, const struct shared_header *found,
                          const char *found_file, const struct shared_header *own,
                          const char *own_file);

#endif
