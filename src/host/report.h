/* src/host/report.h: the lines that --stats prints. */
#ifndef ONESPACE_HOST_REPORT_H
#define ONESPACE_HOST_REPORT_H

#include "onespace.h"

/* One line about an ended task on standard error. */
void report_stats(const char *program, const struct onespace_status *status);

/* The exit status for a task that could not be started: 127 not found, 126 the program cannot be a
 * task, 1 when it is not the program's fault. */
int report_exit_code(int error);

#endif
