/* src/interpose/registrations.c: which calls register memory with a device, and which unmap what
 * others may have registered (space/registrations.h).
 *
 * A range is recorded twice, before the call that registers it and when the call has succeeded: a
 * notice between the two removes the first record before the library knows the registration. Old
 * versions of libibverbs register by write(), which is not seen. Memory that a driver registers for
 * its own queues is the task's. */
#include <linux/mman.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/uio.h>

#include "base/page.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"
#include "interpose/memory/memory.h"
#include "space/registrations.h"
#include "space/shared_mappings.h"

struct range {
    uint64_t start, bytes;
};

/* ---- libibverbs ---- */

/* UVERBS_METHOD_REG_MR and two of its attributes: newer than most headers. */
enum {
    METHOD_REG_MR = 5,
    REG_MR_ADDRESS = 4,
    REG_MR_LENGTH = 5,
    ATTRIBUTES_MAX = 32, /* the kernel's methods have fewer */
};

union verbs_call {
    struct ib_uverbs_ioctl_hdr header; /* its attributes follow it */
    unsigned char
        bytes[sizeof(struct ib_uverbs_ioctl_hdr) + ATTRIBUTES_MAX * sizeof(struct ib_uverbs_attr)];
};

static const struct ib_uverbs_attr *find_attribute(const union verbs_call *call, unsigned id)
{
    for (unsigned i = 0; i < call->header.num_attrs; i++)
        if (call->header.attrs[i].attr_id == id)
            return &call->header.attrs[i];
    return NULL;
}

/* A command of the older interface, wrapped: the attributes are its number and its structure. */
static int read_wrapped_command(const union verbs_call *call, struct range *range)
{
    const struct ib_uverbs_attr *number = find_attribute(call, UVERBS_ATTR_WRITE_CMD);
    const struct ib_uverbs_attr *in = find_attribute(call, UVERBS_ATTR_CORE_IN);
    struct ib_uverbs_reg_mr reg;
    struct ib_uverbs_rereg_mr rereg;
    if (!number || !in)
        return 0;
    if (number->data == IB_USER_VERBS_CMD_REG_MR && in->len >= sizeof(reg) &&
        interpose_copy_from_user(&reg, (const void *)in->data, sizeof(reg)) == 0)
        *range = (struct range){reg.start, reg.length};
    else if (number->data == IB_USER_VERBS_CMD_REREG_MR && in->len >= sizeof(rereg) &&
             interpose_copy_from_user(&rereg, (const void *)in->data, sizeof(rereg)) == 0)
        *range = (struct range){rereg.start, rereg.length};
    else
        return 0;
    return 1;
}

/* Whether the call registers memory: then *range is set. */
static int read_verbs_call(const void *argument, struct range *range)
{
    union verbs_call call;
    const size_t header = sizeof(call.header);
    if (interpose_copy_from_user(&call.header, argument, header) != 0 ||
        call.header.num_attrs > ATTRIBUTES_MAX ||
        interpose_copy_from_user(call.bytes + header, (const char *)argument + header,
                                 call.header.num_attrs * sizeof(call.header.attrs[0])) != 0)
        return 0;
    if (call.header.object_id == UVERBS_OBJECT_DEVICE &&
        call.header.method_id == UVERBS_METHOD_INVOKE_WRITE)
        return read_wrapped_command(&call, range);
    if (call.header.object_id != UVERBS_OBJECT_MR || call.header.method_id != METHOD_REG_MR)
        return 0;
    const struct ib_uverbs_attr *address = find_attribute(&call, REG_MR_ADDRESS);
    const struct ib_uverbs_attr *length = find_attribute(&call, REG_MR_LENGTH);
    if (!address || !length)
        return 0;
    *range = (struct range){address->data, length->data};
    return 1;
}

void interpose_record_verbs_call(struct space_slot *self, const void *argument)
{
    struct range range;
    if (interpose_is_task(self) && read_verbs_call(argument, &range))
        registrations_add(space_registry(), self, range.start, range.bytes);
}

/* ---- io_uring ---- */

void interpose_record_buffers(struct space_slot *self, const void *buffers, unsigned long count)
{
    enum { AT_ONCE = 16, BUFFERS_MAX = 1 << 14 /* the kernel's */ };
    struct iovec some[AT_ONCE];
    if (!interpose_is_task(self) || count > BUFFERS_MAX)
        return;
    for (unsigned long i = 0; i < count; i += AT_ONCE) {
        unsigned long n = count - i < AT_ONCE ? count - i : AT_ONCE;
        if (interpose_copy_from_user(some, (const struct iovec *)buffers + i,
                                     n * sizeof(some[0])) != 0)
            return;
        for (unsigned long k = 0; k < n; k++)
            registrations_add(space_registry(), self, (uintptr_t)some[k].iov_base, some[k].iov_len);
    }
}

/* The kernel's header for io_uring, which some systems lack, calls these IORING_REGISTER_BUFFERS,
 * …_BUFFERS2 and …_BUFFERS_UPDATE, with struct io_uring_rsrc_register and struct
 * io_uring_rsrc_update2, and IORING_REGISTER_USE_REGISTERED_RING. */
enum { REGISTER_BUFFERS = 0, REGISTER_BUFFERS2 = 15, REGISTER_BUFFERS_UPDATE = 16 };
#define REGISTERED_RING (1u << 31)

struct buffers2 {
    uint32_t count, flags;
    uint64_t reserved, vectors, tags;
};

struct buffers_update {
    uint32_t offset, reserved;
    uint64_t vectors, tags;
    uint32_t count, reserved2;
};

/* The vectors of the buffers: their number, or 0 if the call registers none. */
static unsigned long read_io_uring_call(const long a[6], uintptr_t *vectors)
{
    struct buffers2 buffers;
    struct buffers_update update;
    switch ((unsigned)a[1] & ~REGISTERED_RING) {
    case REGISTER_BUFFERS:
        *vectors = (uintptr_t)a[2];
        return (unsigned)a[3];
    case REGISTER_BUFFERS2:
        if (interpose_copy_from_user(&buffers, (const void *)a[2], sizeof(buffers)) != 0)
            return 0;
        *vectors = buffers.vectors;
        return buffers.count;
    case REGISTER_BUFFERS_UPDATE:
        if (interpose_copy_from_user(&update, (const void *)a[2], sizeof(update)) != 0)
            return 0;
        *vectors = update.vectors;
        return update.count;
    default:
        return 0;
    }
}

long interpose_io_uring_register(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t vectors = 0;
    unsigned long count = read_io_uring_call(a, &vectors);
    interpose_record_buffers(self, (const void *)vectors, count);
    long result = raw(nr, a[0], a[1], a[2], a[3]);
    if (!raw_failed(result))
        interpose_record_buffers(self, (const void *)vectors, count);
    return result;
}

/* ---- Calls that unmap or discard ---- */

static void notify_of(const struct space_slot *self, uintptr_t start, uintptr_t size)
{
    uintptr_t end = start + page_ceiling(size);
    if (start % ARCH_PAGE == 0 && page_ceiling(size) >= size && end > start &&
        end < INTERVAL_ADDRESSES)
        (void)registrations_notify(space_registry(), self, NOTIFY_OTHERS, start, end);
}

static void notify_of_mremap(const struct space_slot *self, const long a[6])
{
    uintptr_t start = (uintptr_t)a[0], old_size = page_ceiling((uintptr_t)a[1]);
    uintptr_t size = page_ceiling((uintptr_t)a[2]);
    int may_move = old_size && (a[3] & MREMAP_MAYMOVE) &&
                   (size > old_size || (a[3] & (MREMAP_FIXED | MREMAP_DONTUNMAP)));
    if (a[3] & MREMAP_FIXED)
        notify_of(self, (uintptr_t)a[4], size);
    if (may_move)
        notify_of(self, start, old_size);
    else if (size < old_size)
        notify_of(self, start + size, old_size - size);
}

/* shmdt is given no size. If the size is unknown, the rest of the range is announced. */
static void notify_of_shmdt(const struct space_slot *self, uintptr_t start)
{
    uintptr_t low, high;
    if (shared_windows_contain(start)) {
        notify_of(self, start, shared_window_end(shared_window_index(start)) - start);
    } else if (in_range(self, start, ARCH_PAGE)) {
        size_t size = area_segment_size(self, start);
        notify_of(self, start, size ? size : range_of(self) + LAYOUT_RANGE - start);
    } else if (intervals_find(self, INTERVALS_OUT_OF_RANGE, start, INTERVAL_ADDRESSES, &low,
                              &high) &&
               low == start) {
        notify_of(self, start, high - start);
    }
}

/* Replaces mappings at its address only with SHM_REMAP. */
static void notify_of_shmat(const struct space_slot *self, const long a[6])
{
    struct shmid_ds segment;
    if ((a[2] & SHM_REMAP) && a[1] && raw(__NR_shmctl, a[0], IPC_STAT, &segment) == 0)
        notify_of(self, page_floor((uintptr_t)a[1]), segment.shm_segsz);
}

/* The kernel replaces whole huge pages, of whatever size. */
static void notify_of_mmap(const struct space_slot *self, const long a[6])
{
    size_t size = (size_t)a[1];
    if ((a[3] & MAP_HUGETLB) && size <= INTERVAL_ADDRESSES)
        size = round_up(size, LAYOUT_GIB);
    if (a[3] & MAP_FIXED)
        notify_of(self, (uintptr_t)a[0], size);
}

void notify_registrants(const struct space_slot *self, long nr, const long a[6])
{
    uintptr_t start, end;
    switch (nr) {
    case __NR_munmap:
        notify_of(self, (uintptr_t)a[0], (uintptr_t)a[1]);
        break;
    case __NR_mmap:
        notify_of_mmap(self, a);
        break;
    case __NR_mremap:
        notify_of_mremap(self, a);
        break;
    case __NR_madvise:
        if (advice_discards(a[2]))
            notify_of(self, (uintptr_t)a[0], (uintptr_t)a[1]);
        break;
    case __NR_brk:
        brk_discarded(self, (uintptr_t)a[0], &start, &end);
        notify_of(self, start, end - start);
        break;
    case __NR_shmdt:
        notify_of_shmdt(self, (uintptr_t)a[0]);
        break;
    case __NR_shmat:
        notify_of_shmat(self, a);
        break;
    default:
        break;
    }
}
