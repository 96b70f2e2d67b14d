/* src/host/hydra_status.h: the exit status that Hydra (MPICH) reports for a job in which a rank
 * fails.
 *
 * When a rank ends without PMI_Finalize, Hydra's proxy sets the status of all others to 0 and kills
 * them. But as long as any output is open, each event makes it reap one rank that has ended, and
 * the status of that one, SIGKILL, replaces the 0 and is ORed to the failed rank's. A process that
 * is killed closes its output before it can be reaped, so the proxy has seen the end of all output
 * then, and reaps only to count. A shim that is killed can be reaped at once, while its task still
 * holds the output.
 *
 * So the host traces the shims of the other ranks when one has failed: the kernel shows a traced
 * process that was killed to its parent only when the tracer lets go, here when all tasks of the
 * launch have ended. */
#ifndef ONESPACE_HOST_HYDRA_STATUS_H
#define ONESPACE_HOST_HYDRA_STATUS_H

#include "host/serve.h"

/* The task of `failed` has ended badly, and its shim does not know it yet. Where tracing is not
 * allowed, or another launch is being held, nothing happens. */
void hydra_status_hold(const struct host *host, const struct client *failed);
/* All tasks of that launch on this host have ended. */
void hydra_status_release(const struct launch *launch);

#endif
