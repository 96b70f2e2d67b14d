/* cmd/doctor/kernel.c: what depends on the kernel's version. Versions are those of kernel.org. A
 * distribution may have backported a fix, so an old version is a warning and the trial decides. */
#include "cmd/doctor/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch/keys.h"
#include "api/kernel.h"

static void say_crashes(struct kernel_release kernel, const char *release)
{
    if (!kernel_release_at_least(kernel, 4, 17, 0))
        doctor_say(DOCTOR_WRONG, "kernel", "Use Linux 5.16 or later.",
                   "Linux %s lacks what a space needs (it came with 4.17)", release);
    else if (!kernel_release_at_least(kernel, 5, 16, 0))
        doctor_say(DOCTOR_WARNING, "kernel",
                   "Use Linux 5.16 or later, or root for gdb and its like.",
                   "Linux %s: so that a crash ends one task alone, spaces are undumpable: only "
                   "privileged processes may trace tasks",
                   release);
    else
        doctor_say(DOCTOR_GOOD, "kernel", NULL,
                   "Linux %s: a crash ends the task that crashes alone", release);
}

static void say_locks(struct kernel_release kernel)
{
    if (kernel_release_at_least(kernel, 6, 4, 0))
        doctor_say(DOCTOR_GOOD, "page faults", NULL,
                   "locked per mapping, so tasks do not wait for one "
                   "another (Linux 6.4 and later)");
    else
        doctor_say(
            DOCTOR_WARNING, "page faults", "Use Linux 6.4 or later.",
            "one lock for the whole space: while one task maps memory the others wait, which "
            "shows at the start of many ranks");
}

static void set_futex_slots(int out, void *context)
{
    enum { PR_FUTEX_HASH_ = 78, SET_SLOTS = 1, SLOTS = 1024 };
    (void)context;
    int error = prctl(PR_FUTEX_HASH_, SET_SLOTS, SLOTS, 0, 0) == 0 ? 0 : errno;
    dprintf(out, "%d", error);
}

static void say_futex_hash(struct kernel_release kernel)
{
    char answer[16];
    static const char subject[] = "futex hash";
    if (!kernel_release_at_least(kernel, 6, 16, 0)) {
        doctor_say(DOCTOR_GOOD, subject, NULL,
                   "one for the whole machine (before Linux 6.16): no "
                   "wake-up can be lost when a private one comes");
        return;
    }
    int status = doctor_child(set_futex_slots, NULL, answer, sizeof(answer), 5000);
    if (status == 0 && strcmp(answer, "0") == 0)
        doctor_say(DOCTOR_GOOD, subject, NULL,
                   "private, and its size can be fixed before the first task, "
                   "as onespace does: no wake-up is lost");
    else if (status == 0 && atoi(answer) == EINVAL)
        doctor_say(DOCTOR_GOOD, subject, NULL, "this kernel is built without private ones");
    else
        doctor_say(
            DOCTOR_WARNING, subject,
            "Let the container's filter pass prctl(PR_FUTEX_HASH), or update the kernel.",
            "its size cannot be fixed (%s): wake-ups between tasks can be lost when the kernel "
            "installs it",
            status == 0 ? strerror(atoi(answer)) : "the call ends the process");
}

/* A line for each fault that the project knows of, so that the list is a table. */
static void say_faults(struct kernel_release kernel, const char *release)
{
    for (size_t i = 0; i < kernel_fault_count; i++) {
        const struct kernel_fault *fault = &kernel_faults[i];
        char fix[256];
        if (!kernel_has_fault(kernel, fault)) {
            doctor_say(DOCTOR_GOOD, fault->name, NULL, "Linux %s does not have it", release);
            continue;
        }
        snprintf(fix, sizeof(fix),
                 "Update the kernel to %s or later, unless your distribution's notes say that it "
                 "fixed this.",
                 fault->fixes);
        doctor_say(fault->effect == KERNEL_FAULT_STALL ? DOCTOR_WRONG : DOCTOR_WARNING, fault->name,
                   fix, "Linux %s %s", release, fault->what);
    }
}

/* Not having them is no fault: nothing but --guard needs them. */
static void say_keys(struct kernel_release kernel)
{
    static const char subject[] = "protection keys";
    if (!arch_cpu_has_keys())
        doctor_say(DOCTOR_GOOD, subject, NULL,
                   "this CPU has none, so `onespace run --guard` is refused here; all else works");
    else if (!arch_kernel_has_keys())
        doctor_say(DOCTOR_GOOD, subject, NULL,
                   "the CPU has them, but the kernel does not use them (nopku?), so `onespace run "
                   "--guard` is refused here; all else works");
    else if (!kernel_release_at_least(kernel, 6, 12, 0))
        doctor_say(
            DOCTOR_GOOD, subject, NULL,
            "`onespace run --guard` works; before Linux 6.12 a signal handler costs a system "
            "call more, and one that is set behind the libc's back ends its task");
    else
        doctor_say(DOCTOR_GOOD, subject, NULL, "`onespace run --guard` works");
}

void doctor_kernel(void)
{
    struct kernel_release kernel;
    char release[128];
    if (kernel_here(&kernel, release, sizeof(release)) < 0) {
        doctor_say(DOCTOR_WARNING, "kernel", "See the list of kernels in the documentation.",
                   "Linux %s is not a version that can be told", release);
        return;
    }
    say_crashes(kernel, release);
    say_locks(kernel);
    say_futex_hash(kernel);
    say_keys(kernel);
    say_faults(kernel, release);
}
