/* src/base/kernel.c: see kernel.h. The versions are those of the CVE records that the kernel's own
 * team publishes. */
#include "base/kernel.h"

#include <sys/utsname.h>

#include "base/raw.h"
#include "base/text.h"

uint32_t kernel_version(void)
{
    struct utsname names;
    uint64_t major = 0, minor = 0;
    if (raw(__NR_uname, &names) != 0)
        return 0;
    const char *rest = text_read_number(names.release, &major);
    if (*rest == '.')
        text_read_number(rest + 1, &minor);
    return KERNEL_VERSION(major, minor);
}

const struct kernel_fault kernel_faults[] = {
    {"CVE-2026-43417",
     KERNEL_FAULT_STALL,
     {6, 19, -1},
     {{6, 19, 9}, {7, 0, 0}},
     "can stall the whole machine when more processes than CPUs share memory, as tasks do",
     "6.19.9, 7.0"},
    {"CVE-2026-43418",
     KERNEL_FAULT_STALL,
     {6, 19, -1},
     {{6, 19, 9}, {7, 0, 0}},
     "can stall the whole machine when processes that share memory start at the same time, as "
     "tasks do",
     "6.19.9, 7.0"},
    {"CVE-2026-23225",
     KERNEL_FAULT_CORRUPT,
     {6, 19, -1},
     {{6, 19, 1}, {7, 0, -1}},
     "can write outside of its own memory when tasks or threads end: the machine may crash",
     "6.19.1, 7.0"},
    {"CVE-2026-52973",
     KERNEL_FAULT_CORRUPT,
     {6, 17, -1},
     {{6, 18, 33}, {7, 0, 10}, {7, 1, 0}},
     "can use freed memory in its futex hash when processes share memory, as tasks do: the machine "
     "may crash",
     "6.18.33, 7.0.10"},
    {"CVE-2026-63799",
     KERNEL_FAULT_CORRUPT,
     {6, 19, -1},
     {{7, 1, 3}, {7, 2, -1}},
     "can clear a bit of its memory when more tasks or threads than CPUs start and end: the "
     "machine may crash",
     "7.1.3"},
    {"CVE-2026-23415",
     KERNEL_FAULT_RARE,
     {6, 16, -1},
     {{6, 18, 21}, {6, 19, 11}, {7, 0, 0}},
     "can read freed memory when one task calls mbind while another waits for a futex with "
     "FUTEX2_NUMA",
     "6.18.21, 6.19.11, 7.0"},
    {"CVE-2026-52977",
     KERNEL_FAULT_RARE,
     {5, 15, -1},
     {{5, 15, 216}, {6, 1, 175}, {6, 6, 141}, {6, 12, 91}, {6, 18, 33}, {7, 0, 10}, {7, 1, 0}},
     "can spin for ever when a real-time program requeues waiters of a priority-inheriting lock",
     "6.1.175, 6.6.141, 6.12.91, 6.18.33, 7.0.10"},
};
const size_t kernel_fault_count = sizeof(kernel_faults) / sizeof(kernel_faults[0]);

/* MAJOR.MINOR[.PATCH][-rcN|~rcN]: what follows it, or NULL. */
static const char *read_release(const char *text, struct kernel_release *kernel)
{
    uint64_t major, minor, patch = 0;
    const char *rest = text_read_number(text, &major);
    if (rest == text || *rest != '.')
        return NULL;
    const char *from = rest + 1;
    rest = text_read_number(from, &minor);
    if (rest == from || major > 1000 || minor > 1000)
        return NULL;
    if (*rest == '.') {
        from = rest + 1;
        rest = text_read_number(from, &patch);
        if (patch > 1000)
            return NULL;
    }
    int is_candidate = (*rest == '-' || *rest == '~') && text_skip_prefix(rest + 1, "rc");
    *kernel = (struct kernel_release){(int)major, (int)minor, is_candidate ? -1 : (int)patch};
    return rest;
}

static int is_same_branch(struct kernel_release a, struct kernel_release b)
{
    return a.major == b.major && a.minor == b.minor;
}

/* Replaces the version by the first one in the text after `before` if that is of the same branch:
 * it has the patch level. */
static void refine(struct kernel_release *kernel, const char *text, const char *before)
{
    for (; *text; text++) {
        struct kernel_release exact;
        const char *after = text_skip_prefix(text, before);
        if (after && read_release(after, &exact)) {
            if (is_same_branch(exact, *kernel))
                *kernel = exact;
            return;
        }
    }
}

int kernel_release_read(struct kernel_release *kernel, const char *release, const char *version,
                        const char *signature)
{
    if (!read_release(release, kernel))
        return -1;
    refine(kernel, version, "Debian ");
    if (signature && text_skip_prefix(signature, "Ubuntu "))
        refine(kernel, text_skip_prefix(signature, "Ubuntu "), " ");
    return 0;
}

int kernel_release_at_least(struct kernel_release kernel, int major, int minor, int patch)
{
    if (kernel.major != major)
        return kernel.major > major;
    return kernel.minor != minor ? kernel.minor > minor : kernel.patch >= patch;
}

int kernel_has_fault(struct kernel_release kernel, const struct kernel_fault *fault)
{
    const struct kernel_release *since = &fault->since;
    if (!kernel_release_at_least(kernel, since->major, since->minor, since->patch))
        return 0;
    int is_behind_all = 1;
    for (int i = 0; i < KERNEL_FIXES_MAX && fault->fixed[i].major; i++) {
        const struct kernel_release *fixed = &fault->fixed[i];
        if (is_same_branch(kernel, *fixed))
            return kernel.patch < fixed->patch;
        is_behind_all = kernel_release_at_least(kernel, fixed->major, fixed->minor, 0);
    }
    return !is_behind_all;
}
