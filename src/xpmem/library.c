/* src/xpmem/library.c: libxpmem.so.0.
 *
 * In a space it calls the root's library through the registry (operations.c), elsewhere the kernel
 * module behind /dev/xpmem, if there is one. Freestanding and without DT_NEEDED, as the agent is,
 * so that one file serves glibc and musl of any version. Its few calls to a libc are weak
 * references. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/raw.h"
#include "onespace.h"
#include "space/registry.h"
#include "xpmem.h"

#define VERSION 0x00027004
#define WEAK    __attribute__((weak))

extern unsigned long getauxval(unsigned long) WEAK;
extern int *__errno_location(void) WEAK;
extern int onespace_self(void) WEAK; /* NULL unless the program uses libonespace */

/* ---- The kernel module: commands and arguments of its interface (xpmem_internal.h) ---- */

enum {
    DEVICE_VERSION = 0x7800, /* _IO('x', 0) and so on */
    DEVICE_MAKE,
    DEVICE_REMOVE,
    DEVICE_GET,
    DEVICE_RELEASE,
    DEVICE_ATTACH,
    DEVICE_DETACH,
    DEVICE_FORK_BEGIN,
    DEVICE_FORK_END,
};

struct device_make {
    uint64_t address;
    uint64_t size;
    int permit_type;
    uint64_t permit_value;
    int64_t segid;
};
struct device_get {
    int64_t segid;
    int flags, permit_type;
    uint64_t permit_value;
    int64_t apid;
};
struct device_attach {
    int64_t apid, offset;
    uint64_t size, address;
    int fd, flags;
};

static _Atomic int device = -1; /* set by the first thread to open it, by compare-and-swap */

/* Opens the device unless it is open: 0 or -errno (-ENOENT without the module). Its descriptors
 * stay open, and so does a second one that another thread has opened: at each close the module
 * forgets all segments and permits of the calling process. */
static long device_open(void)
{
    struct stat status;
    if (atomic_load(&device) >= 0)
        return 0;
    long result = raw(__NR_newfstatat, AT_FDCWD, "/dev/xpmem", &status, 0);
    if (result < 0)
        return result;
    if (!S_ISCHR(status.st_mode))
        return -ENODEV;
    long fd = raw(__NR_openat, AT_FDCWD, "/dev/xpmem", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return fd;
    int none = -1;
    atomic_compare_exchange_strong(&device, &none, (int)fd);
    return 0;
}

/* Sends a command to the module, after opening the device if necessary: its result or -errno. */
static long device_command(int command, void *argument)
{
    long result = device_open();
    if (result < 0)
        return result;
    result = raw(__NR_ioctl, atomic_load(&device), command, argument);
    if (result != -XPMEM_ERRNO_NOPROC)
        return result;
    /* The module does not know a forked child until the child opens the device itself. */
    long fd = raw(__NR_openat, AT_FDCWD, "/dev/xpmem", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return fd;
    atomic_store(&device, (int)fd);
    return raw(__NR_ioctl, fd, command, argument);
}

/* ---- The library ---- */

static _Atomic int has_warned;          /* about a registry of another version */
static struct space_slot *_Atomic task; /* set by find_task; all threads store the same pointer */

/* Returns the slot of the calling task, or NULL if it is not a task or the registry has another
 * layout. */
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

/* Returns the caller's slot; NULL outside a space and in a forked child. A root is looked up each
 * time, because its space may have ended. */
static struct space_slot *member(void)
{
    struct space_slot *slot = atomic_load_explicit(&task, memory_order_acquire);
    if (!slot)
        slot = find_task();
    if (slot)
        return process_in_space() ? slot : NULL;
    return onespace_self && onespace_self() == ONESPACE_ROOT ? &space_registry()->slots[0] : NULL;
}

static const struct space_xpmem_operations *operations(void)
{
    return &space_registry()->operations.xpmem;
}

/* Returns the result, or -1 with errno set if it is -errno. */
static long return_errno(long result)
{
    if (!raw_failed(result))
        return result;
    if (__errno_location)
        *__errno_location() = (int)-result;
    return -1;
}

/* Performs a command of the module for a member. */
static long member_command(struct space_slot *self, int number, void *argument)
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
        result = operations()->make(self, make->address, make->size, make->permit_type,
                                    make->permit_value);
        make->segid = result > 0 ? result : make->segid;
        break;
    case DEVICE_REMOVE:
        return operations()->remove(self, *id);
    case DEVICE_GET:
        result = get->permit_value
                     ? -EINVAL
                     : operations()->get(self, get->segid, get->flags, get->permit_type);
        get->apid = result > 0 ? result : get->apid;
        break;
    case DEVICE_RELEASE:
        return operations()->release(self, *id);
    case DEVICE_ATTACH:
        result =
            operations()->attach(self, attach->apid, attach->offset, attach->size, attach->address);
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

/* Performs the command in the space or by the module. Returns its result, or -1 with errno set. */
static inline long command(int number, void *argument)
{
    struct space_slot *self = member();
    return return_errno(self ? member_command(self, number, argument)
                             : device_command(number, argument));
}

int xpmem_ioctl(int number, void *argument)
{
    return (int)command(number, argument);
}

int xpmem_version(void)
{
    return (int)command(DEVICE_VERSION, NULL);
}

xpmem_segid_t xpmem_make(void *address, size_t size, int permit_type, void *permit_value)
{
    struct device_make make = {(uintptr_t)address, size, permit_type, (uintptr_t)permit_value, -1};
    return command(DEVICE_MAKE, &make) < 0 || make.segid == 0 ? -1 : make.segid;
}

int xpmem_remove(xpmem_segid_t segid)
{
    return (int)command(DEVICE_REMOVE, &segid);
}

/* permit_value is ignored, as in the original library. */
xpmem_apid_t xpmem_get(xpmem_segid_t segid, int flags, int permit_type, void *permit_value)
{
    struct device_get get = {segid, flags, permit_type, 0, -1};
    (void)permit_value;
    return command(DEVICE_GET, &get) < 0 || get.apid == 0 ? -1 : get.apid;
}

int xpmem_release(xpmem_apid_t apid)
{
    return (int)command(DEVICE_RELEASE, &apid);
}

void *xpmem_attach(struct xpmem_addr addr, size_t size, void *at)
{
    struct device_attach attach = {addr.apid, addr.offset, size, (uintptr_t)at, -1, 0};
    long result = command(DEVICE_ATTACH, &attach);
    return result < 0 ? (void *)-1 : (void *)(uintptr_t)attach.address;
}

/* For a member the address is the owner's own: nothing to unmap. */
int xpmem_detach(void *address)
{
    uint64_t at = (uintptr_t)address;
    return (int)command(DEVICE_DETACH, &at);
}

int xpmem_init(void)
{
    return member() ? 0 : (int)return_errno(device_open());
}
