/* src/launch/report.h: messages about tasks and jobs, for hosts, shims and standalone runs. */
#ifndef ONESPACE_LAUNCH_REPORT_H
#define ONESPACE_LAUNCH_REPORT_H

#include <fcntl.h>
#include <stddef.h>

#include "onespace.h"

/* ---- The lines that --stats prints ---- */

enum report_detail { REPORT_NONE, REPORT_JOB, REPORT_RANKS };

/* Sums over the tasks that have ended since the space was last empty. */
struct report_total {
    uint32_t tasks;
    uint64_t copies, copied_bytes, kernel_copies, collectives, attaches;
    uint64_t user_us, system_us; /* CPU time */
};
void report_add(struct report_total *total, const struct onespace_status *status);
/* Prints the task's line for REPORT_RANKS, and the job's line after its last task. `total` is the
 * job's, or has 0 tasks. */
void report_end(enum report_detail detail, const char *program,
                const struct onespace_status *status, const struct report_total *total);

/* ---- Failures ---- */

/* The exit status for a task that could not be started: 127 program not found, 126 the program
 * cannot be a task, 1 another reason. */
int report_exit_code(int error);

/* If the ended task is the first of the space that executed another program, and so left the space:
 * writes that, and the remedy, to `text`, and returns 1. Called in a process of the space. */
int report_departure(int id, const char *program, char *text, size_t size);

/* ---- One message per launch ----
 *
 * The ranks of one launcher fail for the same reason at the same time, and each of their shims
 * learns it. The host gives the shims of a launch a token, a memory file that outlives the host.
 * The shim that locks the token first prints the message. The others wait for the lock, because a
 * launcher ends all ranks when the first one fails. If that shim is killed before it has printed
 * the message, the next one prints it. */

/* Each is said once, and no notice after a failure. The token's seals. */
enum say_once { SAY_FAILURE = F_SEAL_SEAL, SAY_NOTICE = F_SEAL_GROW };

/* A token, or -errno. */
int say_once_create(void);
/* 1: the caller prints the message and calls say_once_done. 0: another process has printed it. */
int say_once_claim(int token, enum say_once what);
/* Also without a claim: no process prints a message any more. */
void say_once_done(int token, enum say_once what);

#endif
