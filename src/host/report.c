/* src/host/report.c: see report.h. */
#include "host/report.h"

#include <errno.h>
#include <stdio.h>

void report_stats(const char *program, const struct onespace_status *status)
{
    fprintf(
        stderr,
        "onespace: task %d (%s, pid %d): %.3f s user, %.3f s system; copies in user space: %llu, "
        "%.3f MB; through the kernel: %llu; XPMEM attaches: %llu\n",
        status->id, program, status->pid, (double)status->user_us / 1e6,
        (double)status->system_us / 1e6, (unsigned long long)status->copies,
        (double)status->copied_bytes / 1e6, (unsigned long long)status->kernel_copies,
        (unsigned long long)status->attaches);
}

int report_exit_code(int error)
{
    switch (error) {
    case -ENOENT:
    case -ENOTDIR:
        return 127;
    case -EAGAIN:
    case -ENOMEM:
    case -EMFILE:
    case -EOWNERDEAD:
        return 1;
    case -EINVAL:
        return 2;
    default:
        return 126;
    }
}
