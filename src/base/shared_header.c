/* src/base/shared_header.c: see shared_header.h. */
#include "base/shared_header.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "abi_tag.h"
#include "base/text.h"
#include "base/raw.h"

uint64_t shared_abi_tag(void)
{
    return ONESPACE_ABI_TAG;
}

long shared_table_map(_Atomic uint32_t *is_mapped, uintptr_t address, uint64_t magic, size_t size,
                      const char *what, const char *owner)
{
    struct shared_header own = shared_header_of(magic, size), *header = (void *)address;
    /* Acquire, pairs with the release below. */
    if (!atomic_load_explicit(is_mapped, memory_order_acquire)) {
        long result = raw(__NR_mmap, address, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (raw_failed(result) && result != -EEXIST)
            return result;
        /* Most of a table stays unused: a huge page would waste 2 MiB. A hint only. */
        (void)raw(__NR_madvise, address, size, MADV_NOHUGEPAGE);
        /* Release: a thread that sees the flag can read the table, which is all zero. */
        atomic_store_explicit(is_mapped, 1, memory_order_release);
    }
    if (shared_header_claim(header, &own))
        return 0;
    shared_header_report(what, header, owner, &own, "this program's libonespace");
    return -EPROTO;
}

char *shared_header_describe(char *text, const struct shared_header *header)
{
    return text_append_number(text_append(text, "ABI tag "), header->tag, 16);
}

void shared_header_report(const char *what, const struct shared_header *found,
                          const char *found_file, const struct shared_header *own,
                          const char *own_file)
{
    enum { FILE_TEXT = 256 };
    char text[2 * (SHARED_TEXT + FILE_TEXT) + 256], *end = text_append(text, "onespace: ");
    end = text_append_max(end, own_file, FILE_TEXT);
    end = text_append(text_append(end, " is of another version than the "), what);
    end = text_append_max(text_append(end, " that "), found_file, FILE_TEXT);
    end = shared_header_describe(text_append(end, " made: "), own);
    end = shared_header_describe(text_append(end, " against "), found);
    end = text_append(end, ": install one version for both\n");
    raw(__NR_write, 2, text, end - text);
}
