/* src/remote_call/context.c: the mapping of the table, and each thread's part. */
#include "remote_call/context.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/raw.h"

/* At a fixed distance from the thread pointer, which a call needs often. A library that is opened
 * later finds room for so little (glibc keeps some). */
static _Thread_local struct call_thread mine __attribute__((tls_model("initial-exec")));

struct call_thread *call_thread(void)
{
    return &mine;
}

/* Whether the table is of this version's layout, which whoever comes first writes down. */
static int claim_table(struct space *space)
{
    struct shared_header *header = &call_table()->header;
    struct shared_header own = shared_header_of(CALL_MAGIC, sizeof(struct call_table));
    if (shared_header_claim(header, &own))
        return 0;
    shared_header_report("table of lenders", header, space->library, &own,
                         "this program's libonespace");
    return call_fail(-EPROTO, "the space's calls are of another version of onespace: install one "
                              "version for all programs");
}

int call_map_table(struct space *space)
{
    /* Acquire, pairs with the release below. */
    if (atomic_load_explicit(&space->calls, memory_order_acquire))
        return claim_table(space);
    long result = raw(__NR_mmap, LAYOUT_CALLS, sizeof(struct call_table), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (raw_failed(result) && result != -EEXIST)
        return call_fail(-ENOMEM, "the space has no memory for calls: %s: see docs/memory.md",
                         strerror((int)-result));
    /* Release: whoever sees the flag can read the table, which is all zero. */
    atomic_store_explicit(&space->calls, 1, memory_order_release);
    return claim_table(space);
}
