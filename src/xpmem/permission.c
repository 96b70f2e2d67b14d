/* src/xpmem/permission.c: see permission.h. */
#include "xpmem/permission.h"

#include <linux/capability.h>

#include "base/raw.h"
#include "xpmem.h"

enum { READ = 4, WRITE = 2, GROUPS_MAX = 1024 };

static void learn_identity(struct space_xpmem *xpmem)
{
    xpmem->euid = (uint32_t)raw(__NR_geteuid);
    xpmem->egid = (uint32_t)raw(__NR_getegid);
}

void permission_introduce(struct space *space, struct space_slot *self)
{
    /* Acquire, pairs with the release below in another thread of this process. */
    if (atomic_load_explicit(&self->xpmem.known, memory_order_acquire))
        return;
    self->xpmem.uid = (uint32_t)raw(__NR_getuid);
    self->xpmem.gid = (uint32_t)raw(__NR_getgid);
    learn_identity(&self->xpmem);
    uint32_t pid = (uint32_t)atomic_load_explicit(&self->pid, memory_order_relaxed);
    if (pid < SPACE_PIDS)
        atomic_store_explicit(&space->xpmem_slots[pid], (uint16_t)slot_index(space, self),
                              memory_order_relaxed);
    atomic_store_explicit(&self->xpmem.known, 1, memory_order_release);
}

static int is_in_group(const struct space_xpmem *xpmem, uint32_t group)
{
    uint32_t groups[GROUPS_MAX];
    if (xpmem->egid == group)
        return 1;
    long count = raw(__NR_getgroups, GROUPS_MAX, groups);
    for (long i = 0; i < count; i++)
        if (groups[i] == group)
            return 1;
    return 0;
}

/* CAP_IPC_OWNER. */
static int may_all(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    return raw(__NR_capget, &header, data) == 0 && (data[0].effective & 1u << CAP_IPC_OWNER);
}

int permission_granted(struct space_slot *self, const struct space_slot *owner, uint32_t mode,
                       int flags)
{
    uint32_t wanted = flags & XPMEM_RDWR ? READ | WRITE : READ;
    const struct space_xpmem *theirs = &owner->xpmem;
    if ((mode & mode >> 3 & mode >> 6 & wanted) == wanted)
        return 1;
    if (self->xpmem.euid == theirs->uid && (mode >> 6 & wanted) == wanted)
        return 1;
    learn_identity(&self->xpmem); /* it may have changed since the first call */
    uint32_t granted = self->xpmem.euid == theirs->uid          ? mode >> 6
                       : is_in_group(&self->xpmem, theirs->gid) ? mode >> 3
                                                                : mode;
    return (granted & wanted) == wanted || may_all();
}
