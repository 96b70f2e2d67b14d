/* src/interpose/restrict.c: prctl, and a program that restricts itself: seccomp filters, and memory
 * that is never both writable and executable. */
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"
#include "interpose/memory/memory.h"
#include "interpose/pointers.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65 /* Linux 6.3 */
#endif
#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856 /* Linux 6.4 */
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

/* The kernel's vector is the root's. Like the kernel, fills what it has no entries for with zeros
 * and returns the whole size, however little the caller asks for. */
static long get_auxv(const struct space_slot *self, long nr, const long a[6])
{
    static const char zeros[64];
    const void *auxv;
    size_t size = interpose_auxv(self, &auxv), length = (size_t)a[2];
    long all = raw(nr, a[0], a[1], 0, a[3], a[4]); /* copies nothing */
    if (all < 0 || size == 0)
        return all < 0 ? all : raw(nr, a[0], a[1], a[2], a[3], a[4]);
    all = (size_t)all < size ? (long)size : all;
    length = length < (size_t)all ? length : (size_t)all;
    size = size < length ? size : length;
    if (interpose_copy_to_user((char *)a[1], auxv, size) != 0)
        return -EFAULT;
    while (size < length) {
        size_t more = length - size < sizeof(zeros) ? length - size : sizeof(zeros);
        if (interpose_copy_to_user((char *)a[1] + size, zeros, more) != 0)
            return -EFAULT;
        size += more;
    }
    return all;
}

/* PR_SET_MDWE acts on the address space, for good: no later task could be started. The error is
 * that of a kernel without it. A forked child has an address space of its own. */
long interpose_prctl(struct space_slot *self, long nr, const long a[6])
{
    if (a[0] == PR_SET_MDWE && process_in_space())
        return -EINVAL;
    if (a[0] == PR_SET_SECCOMP)
        return set_filter(self, nr, a);
    if (a[0] == PR_GET_AUXV)
        return get_auxv(self, nr, a);
    return raw(nr, a[0], a[1], a[2], a[3], a[4]);
}

long interpose_seccomp(struct space_slot *self, long nr, const long a[6])
{
    if (a[0] == SECCOMP_SET_MODE_FILTER || a[0] == SECCOMP_SET_MODE_STRICT)
        return set_filter(self, nr, a);
    return raw(nr, a[0], a[1], a[2]);
}
