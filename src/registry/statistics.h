/* src/registry/statistics.h: what is counted for --stats, ps and doctor. */
#ifndef ONESPACE_REGISTRY_STATISTICS_H
#define ONESPACE_REGISTRY_STATISTICS_H

#include <stdatomic.h>
#include <stdint.h>

/* Statistics of the drop-ins, for --stats and ps. Relaxed counters, written by the task. */
struct space_stats {
    _Atomic uint64_t cma_calls, cma_bytes; /* copied in user space */
    _Atomic uint64_t cma_kernel_calls;     /* passed to the system call */
    _Atomic uint64_t cma_faults;           /* a copy faulted and was redone by the kernel */
    _Atomic uint64_t xpmem_attaches;
    _Atomic uint32_t yields; /* how often it gave its CPU up; wraps */
};

/* What found its table full since the space began: all goes on, with less. Relaxed counters that
 * any task's threads raise and ps and the root read. */
struct space_overflows {
    _Atomic uint32_t patch_sites; /* system calls that were left as they are */
    _Atomic uint32_t
        files; /* files that were searched for patch sites without keeping the result */
    _Atomic uint32_t cpuids;   /* cpuid instructions that were not answered from the table */
    _Atomic uint32_t mappings; /* mappings outside their task's range that stay when it ends */
};

static inline void space_count(_Atomic uint32_t *counter, uint32_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

#endif
