/* src/base/cpu_mask.h: sets of CPUs as large as any kernel's, as sched_getaffinity writes them.
 * Freestanding. */
#ifndef ONESPACE_BASE_CPU_MASK_H
#define ONESPACE_BASE_CPU_MASK_H

#include <stdint.h>

enum { CPU_MASK_MAX = 8192 };

struct cpu_mask {
    uint64_t words[CPU_MASK_MAX / 64];
};

static inline void cpu_mask_join(struct cpu_mask *cpus, const struct cpu_mask *more)
{
    for (unsigned i = 0; i < CPU_MASK_MAX / 64; i++)
        cpus->words[i] |= more->words[i];
}

static inline int cpu_mask_count(const struct cpu_mask *cpus)
{
    int count = 0;
    for (unsigned i = 0; i < CPU_MASK_MAX / 64; i++)
        count += __builtin_popcountll(cpus->words[i]);
    return count;
}

#endif
