/* src/xpmem/device.h: outside a space: the kernel module behind /dev/xpmem, if there is one.
 *
 * The commands and the layout of their arguments are the module's interface (its xpmem_internal.h).
 */
#ifndef ONESPACE_XPMEM_DEVICE_H
#define ONESPACE_XPMEM_DEVICE_H

#include <stdint.h>

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

/* Opens the device: 0 or -errno (-ENOENT where there is no module). */
long device_open(void);
/* Sends a command to the module: its result or -errno. Opens the device if it is not open yet. */
long device_command(int command, void *argument);

#endif
