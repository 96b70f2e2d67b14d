/* src/host/report.h: the lines that --stats prints. */
#ifndef ONESPACE_HOST_REPORT_H
#define ONESPACE_HOST_REPORT_H

#include "onespace.h"

/* One line about an ended task on standard error. */
void report_stats(const char *program, const struct onespace_status *status);

#endif
