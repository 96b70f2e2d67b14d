/* src/shim/shim.h: stand in for a task that runs in the host of a named space. */
#ifndef ONESPACE_SHIM_H
#define ONESPACE_SHIM_H

#include <stddef.h>

#include "host/job/report.h"

struct shim_job {
    const char *space; /* its name */
    char *const *argv; /* program and arguments */
    unsigned flags;    /* ONESPACE_SPAWN_* */
    size_t stack_size;
    int launcher;       /* pid of the launcher on this node, or 0 */
    int number, ntasks; /* for ONESPACE_TASK_ID, or -1 */
    const char *launch; /* a name that ranks of one launcher have in common */
    enum report_detail stats;
    const char *bind; /* --cpu-bind, or NULL */
};

/* Runs the job and returns the exit status for the caller, or does not return: a task that died of
 * a signal makes the shim die of the same. Prints what went wrong on standard error. */
int shim_run(const struct shim_job *job);

#endif
