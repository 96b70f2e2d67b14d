/* cmd/doctor/kernel.c: the kernel: its version, and the system calls that it allows. */
#include "cmd/doctor/doctor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/kernel.h"
#include "arch/keys.h"
#include "cmd/lib/files.h"

/* ---- The version ----
 *
 * Versions are those of kernel.org. A distribution may have backported a fix, so an old version is
 * a warning, and the trial decides. */

static void say_crashes(struct kernel_release kernel, const char *release)
{
    if (!kernel_release_at_least(kernel, 4, 17, 0))
        doctor_say(DOCTOR_WRONG, "kernel", "Use Linux 5.16 or later.",
                   "Linux %s lacks what a space needs (it came with 4.17)", release);
    else if (!kernel_release_at_least(kernel, 5, 16, 0))
        doctor_say(DOCTOR_WARNING, "kernel",
                   "Use Linux 5.16 or later, or run gdb and similar tools as root.",
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
    int status = doctor_child(set_futex_slots, NULL, answer, sizeof(answer), 60000);
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

/* One line for each known fault of kernels. */
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

/* A missing feature is not a fault: only --guard needs it. */
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

static void say_amd_gpu(void)
{
    if (access("/dev/kfd", F_OK) == 0)
        doctor_say(DOCTOR_WARNING, "GPU of AMD", "See the page on GPUs.",
                   "only one task of a space can use it: ranks that are linked with libamdhip64 or "
                   "libhsa-runtime64 stay processes");
}

void doctor_kernel(void)
{
    struct kernel_release kernel;
    char release[128];
    say_amd_gpu();
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

/* ---- System calls that a container or a security module may forbid ----
 *
 * Each is tried in a child process, because a seccomp filter may kill the process instead of
 * returning an error. */

static int call_memfd_create(void)
{
    return memfd_create("onespace-doctor", MFD_CLOEXEC) >= 0 ? 0 : errno;
}

static int call_clone3(void)
{
    /* Size 0 is invalid: a kernel that has the call returns EINVAL. */
    syscall(SYS_clone3, NULL, (size_t)0);
    return errno == EINVAL ? 0 : errno;
}

static int call_process_vm_readv(void)
{
    static int word;
    int copy;
    struct iovec local = {&copy, sizeof(copy)}, remote = {&word, sizeof(word)};
    /* The parent runs this program at the same addresses. */
    return process_vm_readv(getppid(), &local, 1, &remote, 1, 0) == sizeof(copy) ? 0 : errno;
}

static int call_prctl(void)
{
    int signal;
    return prctl(PR_GET_PDEATHSIG, &signal) == 0 ? 0 : errno;
}

static int call_rt_sigaction(void)
{
    struct sigaction action;
    return sigaction(SIGCHLD, NULL, &action) == 0 ? 0 : errno;
}

static int call_wait4(void)
{
    waitpid(getpid(), NULL, WNOHANG);
    return errno == ECHILD ? 0 : errno;
}

static void try_call(int out, void *context)
{
    int (*call)(void) = *(int (**)(void))context;
    dprintf(out, "%d", call());
}

/* 0, an errno, or -1 when the filter kills the caller. */
static int outcome(int (*call)(void))
{
    char answer[16];
    int status = doctor_child(try_call, &call, answer, sizeof(answer), 60000);
    return status == 0 ? atoi(answer) : -1;
}

static const char *words(int error)
{
    return error < 0 ? "the filter ends the caller" : strerror(error);
}

static void say_cma(void)
{
    char text[32];
    int error = outcome(call_process_vm_readv);
    int restricted =
        file_read_line("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text)) == 0 &&
        atoi(text) > 0;
    if (error == 0)
        doctor_say(DOCTOR_GOOD, "CMA", NULL,
                   "process_vm_readv works; between tasks onespace copies without "
                   "the kernel");
    else
        doctor_say(restricted && error == EPERM ? DOCTOR_GOOD : DOCTOR_WARNING, "CMA",
                   restricted && error == EPERM
                       ? NULL
                       : "Allow process_vm_readv and process_vm_writev in the "
                         "container's filter (docker: --cap-add=SYS_PTRACE).",
                   "process_vm_readv: %s; tasks do not need it among themselves, ranks that are "
                   "ordinary processes copy twice without it",
                   words(error));
    if (!restricted)
        doctor_say(DOCTOR_GOOD, "ptrace_scope", NULL,
                   "processes of one user may look at one another");
    else
        doctor_say(DOCTOR_WARNING, "ptrace_scope",
                   "sysctl -w kernel.yama.ptrace_scope=0, if the site's rules allow it.",
                   "%d: copies between tasks work, but `onespace ps` sees less and debuggers "
                   "cannot attach",
                   atoi(text));
}

static void say_needed(const char *name, const char *fix, int error)
{
    if (error != 0)
        doctor_say(DOCTOR_WRONG, name, fix, "%s: a space cannot be made", words(error));
}

void doctor_calls(void)
{
    /* Not in a child process, which could not be waited for without it. */
    say_needed("wait4", "Allow wait4 in the container's filter.", call_wait4());
    say_needed("rt_sigaction", "Allow rt_sigaction in the container's filter.",
               outcome(call_rt_sigaction));
    say_needed("prctl", "Allow prctl in the container's filter.", outcome(call_prctl));
    int memfd = outcome(call_memfd_create), clone3 = outcome(call_clone3);
    say_needed("memfd_create", "Allow memfd_create in the container's filter.", memfd);
    if (clone3 < 0)
        doctor_say(DOCTOR_WRONG, "clone3", "Let the container's filter return ENOSYS instead.",
                   "%s: tasks cannot be made", words(clone3));
    else if (clone3 != 0 && clone3 != ENOSYS && clone3 != EPERM)
        doctor_say(DOCTOR_WRONG, "clone3", "Let the container's filter pass it, or return ENOSYS.",
                   "%s: tasks cannot be made", words(clone3));
    if (memfd == 0 && (clone3 == 0 || clone3 == ENOSYS || clone3 == EPERM))
        doctor_say(DOCTOR_GOOD, "system calls", NULL, "memfd_create works; clone3 %s",
                   clone3 == 0 ? "works" : "does not, clone does instead");
    say_cma();
}
