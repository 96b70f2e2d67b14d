/* src/xpmem/device.c: see device.h. Freestanding: it serves glibc and musl. */
#include "xpmem/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "base/raw.h"
#include "xpmem.h"

static _Atomic int device = -1; /* set by the thread that opens it first, by compare-and-swap */

long device_open(void)
{
    struct stat status;
    long result = raw(__NR_newfstatat, AT_FDCWD, "/dev/xpmem", &status, 0);
    if (result < 0)
        return result;
    if (!S_ISCHR(status.st_mode))
        return -ENODEV;
    long fd = raw(__NR_openat, AT_FDCWD, "/dev/xpmem", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return fd;
    int none = -1;
    if (!atomic_compare_exchange_strong(&device, &none, (int)fd))
        raw(__NR_close, fd);
    return 0;
}

long device_command(int command, void *argument)
{
    if (atomic_load(&device) < 0) {
        long result = device_open();
        if (result < 0)
            return result;
    }
    long result = raw(__NR_ioctl, atomic_load(&device), command, argument);
    if (result != -XPMEM_ERRNO_NOPROC)
        return result;
    /* A forked child whose parent opened the device is unknown to the module until it opens it
     * itself. */
    long fd = raw(__NR_openat, AT_FDCWD, "/dev/xpmem", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return fd;
    raw(__NR_close, atomic_exchange(&device, (int)fd));
    return raw(__NR_ioctl, fd, command, argument);
}
