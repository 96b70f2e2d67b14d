/* src/host/job/report.h: the lines that --stats prints. */
#ifndef ONESPACE_HOST_REPORT_H
#define ONESPACE_HOST_REPORT_H

#include "onespace.h"

enum report_detail { REPORT_NONE, REPORT_JOB, REPORT_RANKS };

/* Sums over the tasks that have ended since the space was last empty. */
struct report_total {
    uint32_t tasks;
    uint64_t copies, copied_bytes, kernel_copies, collectives, attaches;
    uint64_t user_us, system_us; /* CPU time */
};
void report_add(struct report_total *total, const struct onespace_status *status);
/* Says on standard error what a task did, if each one's part is asked for, and what the job did
 * whose last task it was. `total` is the job's, or has 0 tasks. */
void report_end(enum report_detail detail, const char *program,
                const struct onespace_status *status, const struct report_total *total);

/* The exit status for a task that could not be started: 127 not found, 126 the program cannot be a
 * task, 1 when it is not the program's fault. */
int report_exit_code(int error);

#endif
