/* src/interpose/memory/seal.c: mseal keeps its promise to the task, and the memory can be given
 * back.
 *
 * The kernel unmaps a sealed mapping with the address space only: each task that seals something,
 * as loaders are about to do, would cost the space a slot and that memory for good. So nothing is
 * sealed in the kernel. What the task has sealed is noted, and its own calls that a seal forbids
 * fail with EPERM. The reaper unmaps it as all else. Calls that are not interposed pass, as do
 * other tasks'.
 *
 * A forked child has the seals of its parent by its copy of the table; what it seals itself is
 * sealed by the kernel, in its own memory. */
#include "interpose/memory/memory.h"

#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include "base/page.h"
#include "base/raw.h"
#include "space/shared_mappings.h"
#include "space/intervals.h"
#include "space/locks.h"

/* Newer than some headers. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

static int is_sealed(const struct space_slot *self, long address, long bytes)
{
    uintptr_t start = (uintptr_t)address, end = start + page_ceiling((size_t)bytes);
    return start % ARCH_PAGE == 0 && end > start &&
           intervals_overlap(self, INTERVALS_SEALED, start, end);
}

/* Advice that takes pages' contents away. */
static int discards(long advice)
{
    switch (advice) {
    case MADV_DONTNEED:
    case MADV_DONTNEED_LOCKED:
    case MADV_FREE:
    case MADV_REMOVE:
    case MADV_DONTFORK:
    case MADV_WIPEONFORK:
        return 1;
    default:
        return 0;
    }
}

/* Memory that may be written may be discarded, sealed or not. Whether it may be written the kernel
 * tells when it is to fault its pages in for that. */
static int forbids_discarding(const struct space_slot *self, uintptr_t start, uintptr_t end)
{
    uintptr_t low, high;
    for (; intervals_find(self, INTERVALS_SEALED, start, end, &low, &high); start = high)
        if (!shared_windows_contain(low) &&
            raw(__NR_madvise, low, high - low, MADV_POPULATE_WRITE) != 0)
            return 1;
    return 0;
}

int seal_forbids(const struct space_slot *self, long nr, const long a[6])
{
    if (intervals_used(self, INTERVALS_SEALED) == 0)
        return 0;
    switch (nr) {
    case __NR_munmap:
    case __NR_mprotect:
    case __NR_pkey_mprotect:
        return is_sealed(self, a[0], a[1]);
    case __NR_mmap:
        return (a[3] & MAP_FIXED) && is_sealed(self, a[0], a[1]);
    case __NR_mremap:
        return is_sealed(self, a[0], a[1] ? a[1] : 1) ||
               ((a[3] & MREMAP_FIXED) && is_sealed(self, a[4], a[2]));
    case __NR_madvise:
        return discards(a[2]) && is_sealed(self, a[0], a[1]) &&
               forbids_discarding(self, (uintptr_t)a[0],
                                  (uintptr_t)a[0] + page_ceiling((size_t)a[1]));
    case __NR_shmdt:
        return is_sealed(self, a[0], 1);
    default:
        return 0;
    }
}

/* The kernel looks at flags first: what it answers tells whether it has the call. */
static long check_kernel(void)
{
    long result = raw(__NR_mseal, 0, 0, ~0ul);
    return result == -EINVAL ? 0 : result;
}

long interpose_mseal(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t start = (uintptr_t)a[0];
    size_t size = page_ceiling((size_t)a[1]);
    if (!process_in_space())
        return raw(nr, a[0], a[1], a[2]);
    long result = check_kernel();
    if (result != 0)
        return result;
    if (a[2] || start % ARCH_PAGE || size < (size_t)a[1] || start + size < start)
        return -EINVAL;
    if (size == 0)
        return 0;
    /* Changes nothing, and finds addresses without memory. */
    if (raw(__NR_msync, start, size, MS_ASYNC) != 0)
        return -ENOMEM;
    uint64_t signals = member_lock(self);
    result = intervals_add(self, INTERVALS_SEALED, start, start + size) == 0 ? 0 : -ENOMEM;
    member_unlock(self, signals);
    return result;
}
