/* src/xpmem/operations.c: XPMEM's operations among the members of a space.
 *
 * They run in the root's copy of the library, on the caller's thread. libxpmem.so.0 calls them
 * through the registry, so only one library knows the layout of the tables. Results are those of
 * xpmem.h, with -errno for failures; arguments are tested in the order of the kernel module.
 * Freestanding and lock-free; only a process's first call makes system calls.
 *
 * A permit holds its segment's owner (space/member.h), so an attachment stays valid until its
 * permit is released, even if the owner ends. */
#include <errno.h>
#include <linux/capability.h>

#include "arch/constants.h"
#include "base/raw.h"
#include "space/member.h"
#include "xpmem.h"
#include "xpmem/entries.h"

/* ---- Permissions ----
 *
 * Members can access all of each other's memory anyway, so permissions protect nothing. They give
 * programs the results that they expect of file mode bits. As with the kernel module, the owner's
 * credentials are those at its first call. */

enum { READ = 4, WRITE = 2, GROUPS_MAX = 1024 };

static void record_effective_ids(struct space_xpmem *xpmem)
{
    xpmem->euid = (uint32_t)raw(__NR_geteuid);
    xpmem->egid = (uint32_t)raw(__NR_getegid);
}

/* Records the caller's credentials at its first call, and the slot of its process for look-ups. */
static void record_credentials(struct space *space, struct space_slot *self)
{
    /* Acquire, pairs with the release below in another thread of this process. */
    if (atomic_load_explicit(&self->xpmem.known, memory_order_acquire))
        return;
    self->xpmem.uid = (uint32_t)raw(__NR_getuid);
    self->xpmem.gid = (uint32_t)raw(__NR_getgid);
    record_effective_ids(&self->xpmem);
    uint32_t pid = entry_pid(space, self);
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

static int has_ipc_owner_capability(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    return raw(__NR_capget, &header, data) == 0 && (data[0].effective & 1u << CAP_IPC_OWNER);
}

/* Returns whether `self` may get a segment of `owner` with these mode bits, for reading or (flags
 * XPMEM_RDWR) also for writing. */
static int is_permitted(struct space_slot *self, const struct space_slot *owner, uint32_t mode,
                        int flags)
{
    uint32_t requested = flags & XPMEM_RDWR ? READ | WRITE : READ;
    const struct space_xpmem *owner_ids = &owner->xpmem;
    if ((mode & mode >> 3 & mode >> 6 & requested) == requested)
        return 1;
    if (self->xpmem.euid == owner_ids->uid && (mode >> 6 & requested) == requested)
        return 1;
    record_effective_ids(&self->xpmem); /* they may have changed since the first call */
    uint32_t granted = self->xpmem.euid == owner_ids->uid          ? mode >> 6
                       : is_in_group(&self->xpmem, owner_ids->gid) ? mode >> 3
                                                                   : mode;
    return (granted & requested) == requested || has_ipc_owner_capability();
}

/* ---- Operations ---- */

static int is_aligned(uint64_t value)
{
    return value % ARCH_PAGE == 0;
}

static int64_t xpmem_op_make(struct space_slot *self, uintptr_t address, size_t size,
                             int permit_type, uintptr_t permit_value)
{
    struct space *space = space_registry();
    if (permit_type != XPMEM_PERMIT_MODE || (permit_value & ~(uintptr_t)0777) || size == 0)
        return -EINVAL;
    if (address == 0 && size == XPMEM_MAXADDR_SIZE)
        size = ARCH_ADDRESS_END;
    if (!is_aligned(address) || !is_aligned(size) || address >= ARCH_ADDRESS_END ||
        size > ARCH_ADDRESS_END - address)
        return -EINVAL;
    record_credentials(space, self);
    struct entry_content segment = {.first = address, .size = size, .mode = (uint32_t)permit_value};
    return entry_add(space, self, ENTRY_SEGMENT, &segment);
}

/* Returns whether the id names another member that is alive. */
static int is_of_other(struct space *space, const struct space_slot *self, int64_t id)
{
    const struct space_slot *process = entry_process(space, id);
    return process && process != self && member_is_present(process);
}

static int is_own(struct space *space, const struct space_slot *self, int64_t id)
{
    return (uint32_t)id == entry_pid(space, self);
}

static long xpmem_op_remove(struct space_slot *self, int64_t segid)
{
    struct space *space = space_registry();
    if (segid <= 0)
        return -EINVAL;
    if (!is_own(space, self, segid))
        return is_of_other(space, self, segid) ? -EACCES : -ENOENT;
    return entry_remove(space, self, ENTRY_SEGMENT, segid);
}

/* Reads the segment of a living owner: 0 or -ENOENT. */
static long read_segment(struct space *space, const struct space_slot *owner, int64_t segid,
                         struct entry_content *segment)
{
    if (!member_is_present(owner) || entry_process(space, segid) != owner)
        return -ENOENT;
    return entry_read(space, owner, ENTRY_SEGMENT, segid, segment);
}

/* Adds a permit of `self`, which already holds the owner. */
static int64_t make_permit(struct space *space, struct space_slot *self, struct space_slot *owner,
                           int64_t segid, int flags)
{
    struct entry_content segment;
    /* Read after the hold was taken: the slot stays the owner's while the hold lasts. */
    long result = read_segment(space, owner, segid, &segment);
    if (result < 0)
        return result;
    if (!is_permitted(self, owner, segment.mode, flags))
        return -EACCES;
    struct entry_content permit = {
        .first = (uint64_t)segid, .mode = (uint32_t)flags, .owner = slot_index(space, owner)};
    return entry_add(space, self, ENTRY_PERMIT, &permit);
}

static int64_t xpmem_op_get(struct space_slot *self, int64_t segid, int flags, int permit_type)
{
    struct space *space = space_registry();
    if (segid <= 0 || (flags & ~(XPMEM_RDONLY | XPMEM_RDWR)) ||
        flags == (XPMEM_RDONLY | XPMEM_RDWR) || permit_type != XPMEM_PERMIT_MODE)
        return -EINVAL;
    struct space_slot *owner = entry_process(space, segid);
    if (!owner)
        return -ENOENT;
    record_credentials(space, self);
    long held = hold_take(space, owner, self);
    if (held < 0)
        return held == -EOVERFLOW ? -ENOMEM : -ENOENT;
    int64_t apid = make_permit(space, self, owner, segid, flags);
    if (apid < 0)
        (void)hold_release(space, owner, self);
    return apid;
}

static long xpmem_op_release(struct space_slot *self, int64_t apid)
{
    struct space *space = space_registry();
    struct entry_content permit;
    if (apid <= 0)
        return -EINVAL;
    if (!is_own(space, self, apid))
        return is_of_other(space, self, apid) ? -EACCES : -ENOENT;
    long result = entry_read(space, self, ENTRY_PERMIT, apid, &permit);
    if (result == 0)
        result = entry_remove(space, self, ENTRY_PERMIT, apid);
    if (result == 0) /* only one thread removes the permit */
        (void)hold_release(space, &space->slots[permit.owner], self);
    return result;
}

/* Finds a permit and its segment: 0 or -errno. */
static long find_permit(struct space *space, struct space_slot *self, int64_t apid,
                        struct entry_content *segment)
{
    struct entry_content permit;
    struct space_slot *holder = is_own(space, self, apid) ? self : entry_process(space, apid);
    if (!holder || entry_read(space, holder, ENTRY_PERMIT, apid, &permit) != 0)
        return -ENOENT;
    long result = read_segment(space, &space->slots[permit.owner % LAYOUT_SLOTS],
                               (int64_t)permit.first, segment);
    if (result < 0)
        return result;
    return holder != self || permit.mode == XPMEM_RDONLY ? -EACCES : 0;
}

static long xpmem_op_attach(struct space_slot *self, int64_t apid, int64_t offset, size_t size,
                            uintptr_t at)
{
    struct entry_content segment;
    if (apid <= 0 || at >= ARCH_ADDRESS_END || !is_aligned(at) || !is_aligned((uint64_t)offset))
        return -EINVAL;
    long result = find_permit(space_registry(), self, apid, &segment);
    if (result < 0)
        return result;
    if (offset < 0 || size == 0 || (uint64_t)offset >= segment.size)
        return -EINVAL;
    uint64_t available = segment.size - (uint64_t)offset; /* a multiple of the page size */
    uint64_t address = segment.first + (uint64_t)offset;
    if (size > available || (at && at != address))
        return -EINVAL;
    atomic_fetch_add_explicit(&self->stats.xpmem_attaches, 1, memory_order_relaxed);
    return (long)address;
}

static void fill_operations(struct space *space)
{
    space->operations.xpmem = (struct space_xpmem_operations){
        xpmem_op_make, xpmem_op_remove, xpmem_op_get, xpmem_op_release, xpmem_op_attach};
}

const struct member_hooks xpmem_hooks = {.space_created = fill_operations, .ended = entry_drop_all};
