/* src/base/kernel.h: the version of Linux, and versions that mishandle processes that share memory,
 * as tasks do. Freestanding. docs/older-systems.md has the same table with sources. */
#ifndef ONESPACE_BASE_KERNEL_H
#define ONESPACE_BASE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define KERNEL_VERSION(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))

/* The running kernel, as KERNEL_VERSION makes it; 0 if it cannot be read. */
uint32_t kernel_version(void);

/* An upstream version. A release candidate has the patch level -1. */
struct kernel_release {
    int major, minor, patch;
};

enum kernel_fault_effect {
    KERNEL_FAULT_RARE,    /* only in programs that do something unusual */
    KERNEL_FAULT_CORRUPT, /* may damage the kernel's memory; threads may trigger it, too */
    KERNEL_FAULT_STALL,   /* the machine may stop while a space runs */
};

enum { KERNEL_FIXES_MAX = 8 };

struct kernel_fault {
    const char *name;
    enum kernel_fault_effect effect;
    struct kernel_release since;
    /* The first fixed version of each branch that got the fix, in ascending order; the last is
     * mainline's. A branch between them that is not listed never got it. */
    struct kernel_release fixed[KERNEL_FIXES_MAX];
    const char *what;  /* the rest of a sentence that begins with the version */
    const char *fixes; /* for messages: the versions in `fixed` to update to */
};

extern const struct kernel_fault kernel_faults[];
extern const size_t kernel_fault_count;

/* The upstream version from what uname(2) says. Distributions leave the patch level out of the
 * release: Debian has it in the version ("... Debian 6.1.164-1 ..."), Ubuntu in
 * /proc/version_signature ("Ubuntu 6.17.0-14.14-generic 6.17.9"), which may be NULL. 0, or -1 if
 * the release is not a version. */
int kernel_release_read(struct kernel_release *kernel, const char *release, const char *version,
                        const char *signature);

int kernel_release_at_least(struct kernel_release kernel, int major, int minor, int patch);

int kernel_has_fault(struct kernel_release kernel, const struct kernel_fault *fault);

#endif
