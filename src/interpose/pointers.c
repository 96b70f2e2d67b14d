/* src/interpose/pointers.c: see pointers.h. */
#include "interpose/pointers.h"

#include <errno.h>
#include <sys/uio.h>

#include "arch/copy.h"
#include "base/raw.h"

static int copy(long nr, void *ours, void *theirs, size_t size)
{
    struct iovec local = {ours, size}, remote = {theirs, size};
    long result = raw(nr, raw(__NR_getpid), &local, 1, &remote, 1, 0);
    if (result >= 0 || result == -EFAULT)
        return result == (long)size ? 0 : -EFAULT;
    int failed = nr == __NR_process_vm_readv ? arch_guarded_copy(ours, theirs, size)
                                             : arch_guarded_copy(theirs, ours, size);
    return failed ? -EFAULT : 0;
}

int interpose_copy_from_user(void *to, const void *from, size_t size)
{
    return copy(__NR_process_vm_readv, to, (void *)from, size);
}

int interpose_copy_to_user(void *to, const void *from, size_t size)
{
    return copy(__NR_process_vm_writev, (void *)from, to, size);
}
