/* src/insitu/handle.c: make and close handles; the mapping of the table. */
#include "insitu/handle.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/raw.h"
#include "onespace.h"
#include "space/member.h"

/* Whether the table is of this version's layout, which whoever comes first writes down. */
static int claim_table(struct space *space)
{
    struct shared_header *header = &insitu_table()->header;
    struct shared_header own = shared_header_of(INSITU_MAGIC, sizeof(struct insitu_table));
    if (shared_header_claim(header, &own))
        return 0;
    shared_header_report("channel table", header, space->library, &own,
                         "this program's libonespace");
    return insitu_fail(-EPROTO, "the space's channels are of another version of onespace: install "
                                "one version for all programs");
}

/* Maps the table if the space has none yet. */
static int map_table(struct space *space)
{
    /* Acquire, pairs with the release below. */
    if (atomic_load_explicit(&space->insitu, memory_order_acquire))
        return claim_table(space);
    long result = raw(__NR_mmap, LAYOUT_INSITU, sizeof(struct insitu_table), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (raw_failed(result) && result != -EEXIST)
        return insitu_fail(-ENOMEM, "the space has no memory for channels: %s: see docs/memory.md",
                           strerror((int)-result));
    /* Of its places few are used: a huge page would take 2 MiB for the first. A hint only. */
    (void)raw(__NR_madvise, LAYOUT_INSITU, sizeof(struct insitu_table), MADV_NOHUGEPAGE);
    /* Release: whoever sees the flag can read the table, which is all zero. */
    atomic_store_explicit(&space->insitu, 1, memory_order_release);
    return claim_table(space);
}

int insitu_prepare(void)
{
    struct space *space = space_mine();
    if (!space)
        return insitu_fail(-EPERM, "the caller is no member of a space: call onespace_init first");
    if (force_libc_locking() < 0)
        return insitu_fail(-EAGAIN, "no thread can be created: raise the limit of processes");
    return map_table(space);
}

struct onespace_insitu *insitu_new_handle(unsigned ranks)
{
    struct onespace_insitu *made = calloc(1, sizeof(*made) + ranks * sizeof(made->owners[0]));
    if (!made) {
        insitu_fail(-ENOMEM, "no memory for a channel's handle");
        return NULL;
    }
    made->space = space_mine();
    made->self = space_self();
    made->entry = NO_ENTRY;
    return made;
}

int onespace_insitu_close(struct onespace_insitu *handle, int timeout_ms)
{
    if (!handle)
        return 0;
    if (!space_mine())
        return insitu_fail(-EPERM, "the caller is no member of the space");
    return handle->is_producer ? insitu_close_producer(handle, timeout_ms)
                               : insitu_close_consumer(handle);
}
