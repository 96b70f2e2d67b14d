/* src/interpose/restrict.c: a program that restricts itself: seccomp filters, and memory that is
 * never both writable and executable. */
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/memory/memory.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65 /* Linux 6.3 */
#endif

/* A filter may allow brk but not mmap, by which the break is moved here: what the break may need is
 * mapped before. */
static long set_filter(struct space_slot *self, long nr, const long a[6])
{
    int is_first = brk_reserve(self);
    long result = raw(nr, a[0], a[1], a[2], a[3], a[4]);
    if (is_first && raw_failed(result))
        brk_unreserve(self);
    return result;
}

/* PR_SET_MDWE acts on the address space, for good: no later task could be started. The error is
 * that of a kernel without it. A forked child has an address space of its own. */
long interpose_prctl(struct space_slot *self, long nr, const long a[6])
{
    if (a[0] == PR_SET_MDWE && space_marked())
        return -EINVAL;
    if (a[0] == PR_SET_SECCOMP)
        return set_filter(self, nr, a);
    return raw(nr, a[0], a[1], a[2], a[3], a[4]);
}

long interpose_seccomp(struct space_slot *self, long nr, const long a[6])
{
    if (a[0] == SECCOMP_SET_MODE_FILTER || a[0] == SECCOMP_SET_MODE_STRICT)
        return set_filter(self, nr, a);
    return raw(nr, a[0], a[1], a[2]);
}
