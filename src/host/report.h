/* src/host/report.h: the lines that --stats prints. */
#ifndef ONESPACE_HOST_REPORT_H
#define ONESPACE_HOST_REPORT_H

#include "onespace.h"

/* One line about an ended task on standard error. */
void report_stats(const char *program, const struct onespace_status *status);

/* Sums over the tasks that have ended since the space was last empty. */
struct report_total {
    uint32_t tasks;
    uint32_t exported; /* an address was exported since the space began, as for an MPI window */
    uint64_t copies, copied_bytes, kernel_copies, attaches;
};
void report_add(struct report_total *total, const struct onespace_status *status);
/* After the last of them, in a process of the space. */
void report_close(struct report_total *total);
/* One line if there was more than one task, and a warning if they are ranks that used no drop-in.
 */
void report_total(const struct report_total *total, int are_ranks);

/* The exit status for a task that could not be started: 127 not found, 126 the program cannot be a
 * task, 1 when it is not the program's fault. */
int report_exit_code(int error);

#endif
