/* src/xpmem/library.c: libxpmem.so.0.
 *
 * A thin layer: in a space it calls the root's library through the registry (src/xpmem/calls.h),
 * elsewhere the kernel module (device.h). Freestanding and without DT_NEEDED, as the agent is, so
 * that one file serves glibc and musl of any version; the few functions that it calls are weak
 * references. */
#include <errno.h>

#include "base/raw.h"
#include "onespace.h"
#include "space/registry.h"
#include "xpmem.h"
#include "xpmem/device.h"

#define VERSION 0x00027004
#define WEAK    __attribute__((weak))

extern unsigned long getauxval(unsigned long) WEAK;
extern int *__errno_location(void) WEAK;
extern int onespace_self(void) WEAK; /* NULL unless the program uses libonespace */

static _Atomic int has_warned;          /* that the registry is of another version */
static struct space_slot *_Atomic task; /* set by find_task; all threads store the same pointer */

/* The slot of the calling task, or NULL if it is none or the registry has another layout. */
static struct space_slot *find_task(void)
{
    struct space *space = getauxval ? (struct space *)getauxval(SPACE_AT_REGISTRY) : NULL;
    struct space_slot *slot = space ? (struct space_slot *)getauxval(SPACE_AT_SLOT) : NULL;
    if (!slot || !registry_matches(space, atomic_exchange(&has_warned, 1) ? NULL : "libxpmem.so.0"))
        return NULL;
    /* Release, pairs with the acquire in member. */
    atomic_store_explicit(&task, slot, memory_order_release);
    return slot;
}

/* The caller's slot; NULL outside a space and in a forked child. Whether the caller is a root is
 * tested each time: its space may have ended. */
static struct space_slot *member(void)
{
    struct space_slot *slot = atomic_load_explicit(&task, memory_order_acquire);
    if (!slot)
        slot = find_task();
    if (slot)
        return process_in_space() ? slot : NULL;
    return onespace_self && onespace_self() == ONESPACE_ROOT ? &space_registry()->slots[0] : NULL;
}

static const struct space_xpmem_operations *calls(void)
{
    return &space_registry()->operations.xpmem;
}

/* The result, or -1 with errno set if it is -errno. */
static long answer(long result)
{
    if (!raw_failed(result))
        return result;
    if (__errno_location)
        *__errno_location() = (int)-result;
    return -1;
}

int xpmem_version(void)
{
    return member() ? VERSION : (int)answer(device_command(DEVICE_VERSION, NULL));
}

xpmem_segid_t xpmem_make(void *address, size_t size, int permit_type, void *permit_value)
{
    struct space_slot *self = member();
    if (self)
        return answer(
            calls()->make(self, (uintptr_t)address, size, permit_type, (uintptr_t)permit_value));
    struct device_make make = {(uintptr_t)address, size, permit_type, (uintptr_t)permit_value, -1};
    long result = answer(device_command(DEVICE_MAKE, &make));
    return result < 0 || make.segid == 0 ? -1 : make.segid;
}

int xpmem_remove(xpmem_segid_t segid)
{
    struct space_slot *self = member();
    return (int)answer(self ? calls()->remove(self, segid) : device_command(DEVICE_REMOVE, &segid));
}

/* permit_value is not looked at, as in the original library. */
xpmem_apid_t xpmem_get(xpmem_segid_t segid, int flags, int permit_type, void *permit_value)
{
    struct space_slot *self = member();
    (void)permit_value;
    if (self)
        return answer(calls()->get(self, segid, flags, permit_type));
    struct device_get get = {segid, flags, permit_type, 0, -1};
    long result = answer(device_command(DEVICE_GET, &get));
    return result < 0 || get.apid == 0 ? -1 : get.apid;
}

int xpmem_release(xpmem_apid_t apid)
{
    struct space_slot *self = member();
    return (int)answer(self ? calls()->release(self, apid) : device_command(DEVICE_RELEASE, &apid));
}

void *xpmem_attach(struct xpmem_addr addr, size_t size, void *at)
{
    struct space_slot *self = member();
    if (self)
        return (void *)answer(calls()->attach(self, addr.apid, addr.offset, size, (uintptr_t)at));
    struct device_attach attach = {addr.apid, addr.offset, size, (uintptr_t)at, -1, 0};
    long result = answer(device_command(DEVICE_ATTACH, &attach));
    return result < 0 ? (void *)-1 : (void *)(uintptr_t)attach.address;
}

int xpmem_detach(void *address)
{
    if (member()) /* the owner's own address: nothing to unmap */
        return 0;
    uint64_t at = (uintptr_t)address;
    return (int)answer(device_command(DEVICE_DETACH, &at));
}

int xpmem_init(void)
{
    return member() ? 0 : (int)answer(device_open());
}

/* The module's commands, for programs that call xpmem_ioctl. */
static long command(struct space_slot *self, int number, void *argument)
{
    struct device_make *make = argument;
    struct device_get *get = argument;
    struct device_attach *attach = argument;
    int64_t *id = argument;
    long result = 0;
    switch (number) {
    case DEVICE_VERSION:
        return VERSION;
    case DEVICE_MAKE:
        result =
            calls()->make(self, make->address, make->size, make->permit_type, make->permit_value);
        make->segid = result > 0 ? result : make->segid;
        break;
    case DEVICE_REMOVE:
        return calls()->remove(self, *id);
    case DEVICE_GET:
        result = get->permit_value ? -EINVAL
                                   : calls()->get(self, get->segid, get->flags, get->permit_type);
        get->apid = result > 0 ? result : get->apid;
        break;
    case DEVICE_RELEASE:
        return calls()->release(self, *id);
    case DEVICE_ATTACH:
        result = calls()->attach(self, attach->apid, attach->offset, attach->size, attach->address);
        attach->address = !raw_failed(result) ? (uint64_t)result : attach->address;
        break;
    case DEVICE_DETACH:
    case DEVICE_FORK_BEGIN:
    case DEVICE_FORK_END:
        return 0;
    default:
        return -ENOTTY;
    }
    return !raw_failed(result) ? 0 : result;
}

int xpmem_ioctl(int number, void *argument)
{
    struct space_slot *self = member();
    return (int)answer(self ? command(self, number, argument) : device_command(number, argument));
}
