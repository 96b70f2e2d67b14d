/* src/base/descriptors.h: closing ranges of descriptors, on kernels without close_range too, whose
 * function glibc has since 2.34. Freestanding. */
#ifndef ONESPACE_BASE_DESCRIPTORS_H
#define ONESPACE_BASE_DESCRIPTORS_H

#include <stddef.h>
#include <sys/resource.h>

#include "base/raw.h"

/* Above all numbers that are worth trying one by one. */
static inline unsigned descriptors_end(void)
{
    struct rlimit limit = {1024, 1024};
    raw(__NR_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
    return limit.rlim_cur > 65536 ? 65536 : (unsigned)limit.rlim_cur;
}

/* Closes `first` to `last`, both included; ~0u: all from `first` on. */
static inline void descriptors_close(unsigned first, unsigned last)
{
#ifdef __NR_close_range
    if (raw(__NR_close_range, first, last, 0) == 0)
        return;
#endif
    unsigned end = descriptors_end(); /* before Linux 5.9 */
    for (unsigned fd = first; fd <= last && fd < end; fd++)
        raw(__NR_close, fd);
}

#endif
