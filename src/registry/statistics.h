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
    _Atomic uint64_t mpi_collectives;      /* done in the tasks' own memory */
    _Atomic uint64_t xpmem_attaches;
};

/* How often a table of the space was full. Nothing fails then; the comment says what is lost.
 * Relaxed counters, incremented by any task's threads and read by ps and the root. */
struct space_overflows {
    _Atomic uint32_t patch_sites; /* system calls that were not interposed */
    _Atomic uint32_t files;       /* files whose patch sites were not cached */
    _Atomic uint32_t cpuids;      /* cpuid instructions that were not answered from the table */
    _Atomic uint32_t mappings;    /* out-of-range mappings that stay when their task ends */
};

static inline void space_count(_Atomic uint32_t *counter, uint32_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

#endif
