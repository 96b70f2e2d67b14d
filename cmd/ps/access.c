/* cmd/ps/access.c: see access.h. */
#include "cmd/ps/access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int access_tracer(int pid)
{
    char path[64], line[256];
    int tracer = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof(line), status))
        sscanf(line, "TracerPid: %d", &tracer);
    if (status)
        fclose(status);
    return tracer;
}

int access_yama_scope(void)
{
    int scope = 0;
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (file && fscanf(file, "%d", &scope) != 1)
        scope = 0;
    if (file)
        fclose(file);
    return scope;
}

/* The kernel makes the same checks for opening that file as for attaching. */
int access_check(const char *command, int pid)
{
    char path[64];
    int tracer = access_tracer(pid);
    snprintf(path, sizeof(path), "/proc/%d/mem", pid);
    if (tracer) {
        fprintf(
            stderr,
            "%s: process %d is traced by process %d already, and a process has one tracer: end or "
            "detach that first\n",
            command, pid, tracer);
        return 1;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 || errno == ENOENT) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    int error = errno, scope = access_yama_scope();
    if (scope == YAMA_NOBODY)
        fprintf(stderr,
                "%s: process %d may not be traced: kernel.yama.ptrace_scope is 3, which forbids it "
                "to root too until the machine boots anew\n",
                command, pid);
    else if (scope > 0)
        fprintf(stderr,
                "%s: process %d may not be traced, because kernel.yama.ptrace_scope is %d: `sysctl "
                "kernel.yama.ptrace_scope=0` lets users trace their own processes\n",
                command, pid, scope);
    else
        fprintf(stderr,
                "%s: process %d may not be traced (%s): run this as the user of the space, in a "
                "container with the right to ptrace\n",
                command, pid, strerror(error));
    return 1;
}
