/* cmd/doctor/calls.c: system calls that a container or a security module may forbid. Each is tried
 * in a child: a seccomp filter may kill the process instead of returning an error. */
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
    int status = doctor_child(try_call, &call, answer, sizeof(answer), 5000);
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
    int restricted = doctor_read("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text)) == 0 &&
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
    /* Without a child, for which this would be needed. */
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
