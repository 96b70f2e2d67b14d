/* src/base/kernel.c: see kernel.h. */
#include "base/kernel.h"

#include <sys/utsname.h>

#include "base/numbers.h"
#include "base/raw.h"

uint32_t kernel_version(void)
{
    struct utsname names;
    uint64_t major = 0, minor = 0;
    if (raw(__NR_uname, &names) != 0)
        return 0;
    const char *rest = numbers_read(names.release, &major);
    if (*rest == '.')
        numbers_read(rest + 1, &minor);
    return KERNEL_VERSION(major, minor);
}
