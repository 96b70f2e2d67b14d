/* src/xpmem/calls.c: see calls.h. */
#include "xpmem/calls.h"

#include <errno.h>

#include "arch/constants.h"
#include "space/member.h"
#include "xpmem.h"
#include "xpmem/entries.h"
#include "xpmem/permission.h"

static int is_aligned(uint64_t value)
{
    return value % ARCH_PAGE == 0;
}

int64_t call_make(struct space_slot *self, uintptr_t address, size_t size, int permit_type,
                  uintptr_t permit_value)
{
    struct space *space = space_registry();
    if (permit_type != XPMEM_PERMIT_MODE || (permit_value & ~(uintptr_t)0777) || size == 0)
        return -EINVAL;
    if (address == 0 && size == XPMEM_MAXADDR_SIZE)
        size = ARCH_ADDRESS_END;
    if (!is_aligned(address) || !is_aligned(size) || address >= ARCH_ADDRESS_END ||
        size > ARCH_ADDRESS_END - address)
        return -EINVAL;
    permission_introduce(space, self);
    struct entry_content segment = {.first = address, .size = size, .mode = (uint32_t)permit_value};
    return entry_add(space, self, ENTRY_SEGMENT, &segment);
}

/* Whether this id names another member, which is alive. */
static int is_of_other(struct space *space, const struct space_slot *self, int64_t id)
{
    const struct space_slot *process = entry_process(space, id);
    return process && process != self && member_is_present(process);
}

static int is_own(const struct space_slot *self, int64_t id)
{
    return (int32_t)id == atomic_load_explicit(&self->pid, memory_order_relaxed);
}

long call_remove(struct space_slot *self, int64_t segid)
{
    struct space *space = space_registry();
    if (segid <= 0)
        return -EINVAL;
    if (!is_own(self, segid))
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

/* A permit of `self`, which holds the owner already. */
static int64_t make_permit(struct space *space, struct space_slot *self, struct space_slot *owner,
                           int64_t segid, int flags)
{
    struct entry_content segment;
    /* After the hold was taken: as long as we hold it, the slot remains the owner's. */
    long result = read_segment(space, owner, segid, &segment);
    if (result < 0)
        return result;
    if (!permission_granted(self, owner, segment.mode, flags))
        return -EACCES;
    struct entry_content permit = {
        .first = (uint64_t)segid, .mode = (uint32_t)flags, .owner = slot_index(space, owner)};
    return entry_add(space, self, ENTRY_PERMIT, &permit);
}

int64_t call_get(struct space_slot *self, int64_t segid, int flags, int permit_type)
{
    struct space *space = space_registry();
    if (segid <= 0 || (flags & ~(XPMEM_RDONLY | XPMEM_RDWR)) ||
        flags == (XPMEM_RDONLY | XPMEM_RDWR) || permit_type != XPMEM_PERMIT_MODE)
        return -EINVAL;
    struct space_slot *owner = entry_process(space, segid);
    if (!owner)
        return -ENOENT;
    permission_introduce(space, self);
    long held = hold_take(space, owner, self);
    if (held < 0)
        return held == -EOVERFLOW ? -ENOMEM : -ENOENT;
    int64_t apid = make_permit(space, self, owner, segid, flags);
    if (apid < 0)
        (void)hold_release(space, owner, self);
    return apid;
}

long call_release(struct space_slot *self, int64_t apid)
{
    struct space *space = space_registry();
    struct entry_content permit;
    if (apid <= 0)
        return -EINVAL;
    if (!is_own(self, apid))
        return is_of_other(space, self, apid) ? -EACCES : -ENOENT;
    long result = entry_read(space, self, ENTRY_PERMIT, apid, &permit);
    if (result == 0)
        result = entry_remove(space, self, ENTRY_PERMIT, apid);
    if (result == 0) /* by the one thread that removed it */
        (void)hold_release(space, &space->slots[permit.owner], self);
    return result;
}

/* Finds a permit and its segment: 0 or -errno. */
static long find_permit(struct space *space, struct space_slot *self, int64_t apid,
                        struct entry_content *segment)
{
    struct entry_content permit;
    struct space_slot *holder = is_own(self, apid) ? self : entry_process(space, apid);
    if (!holder || entry_read(space, holder, ENTRY_PERMIT, apid, &permit) != 0)
        return -ENOENT;
    long result = read_segment(space, &space->slots[permit.owner % LAYOUT_SLOTS],
                               (int64_t)permit.first, segment);
    if (result < 0)
        return result;
    return holder != self || permit.mode == XPMEM_RDONLY ? -EACCES : 0;
}

long call_attach(struct space_slot *self, int64_t apid, int64_t offset, size_t size, uintptr_t at)
{
    struct entry_content segment;
    if (apid <= 0 || at >= ARCH_ADDRESS_END || !is_aligned(at) || !is_aligned((uint64_t)offset))
        return -EINVAL;
    long result = find_permit(space_registry(), self, apid, &segment);
    if (result < 0)
        return result;
    if (offset < 0 || size == 0 || (uint64_t)offset >= segment.size)
        return -EINVAL;
    uint64_t left = segment.size - (uint64_t)offset; /* a multiple of the page size */
    uint64_t address = segment.first + (uint64_t)offset;
    if (size > left || (at && at != address))
        return -EINVAL;
    atomic_fetch_add_explicit(&self->stats.xpmem_attaches, 1, memory_order_relaxed);
    return (long)address;
}

static void fill_operations(struct space *space)
{
    space->operations.xpmem = (struct space_xpmem_operations){call_make, call_remove, call_get,
                                                              call_release, call_attach};
}

const struct member_hooks xpmem_hooks = {.space_created = fill_operations, .ended = entry_drop_all};
