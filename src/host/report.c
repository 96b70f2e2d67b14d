/* src/host/report.c: see report.h. */
#include "host/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "registry/space.h"

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

void report_add(struct report_total *total, const struct onespace_status *status)
{
    total->tasks++;
    total->copies += status->copies;
    total->copied_bytes += status->copied_bytes;
    total->kernel_copies += status->kernel_copies;
    total->attaches += status->attaches;
}

void report_close(struct report_total *total)
{
    struct space *space = space_registry();
    for (unsigned i = 0; i < SPACE_EXPORTS && !total->exported; i++)
        total->exported = atomic_load_explicit(&space->export_reach[i], memory_order_relaxed) != 0;
}

/* What an MPI library moves through its own shared memory or sockets cannot be observed from
 * outside (docs/launchers.md), so the warning names both possible reasons. */
void report_total(const struct report_total *total, int are_ranks)
{
    if (total->tasks < 2)
        return;
    fprintf(stderr,
            "onespace: all %" PRIu32 " tasks together: copies in user space: %" PRIu64
            ", %.3f MB; through the kernel: %" PRIu64 "; XPMEM attaches: %" PRIu64 "\n",
            total->tasks, total->copies, (double)total->copied_bytes / 1e6, total->kernel_copies,
            total->attaches);
    if (are_ranks && total->copies == 0 && total->attaches == 0 && !total->exported)
        fprintf(stderr,
                "onespace: warning: these ranks copied nothing in user space: either they sent no "
                "large messages, or their MPI sent them through the kernel, sockets or its own "
                "shared memory; `onespace doctor` says what it should use\n");
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
