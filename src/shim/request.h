/* src/shim/request.h: what the shim sends to the host: the job, and the state of this process. */
#ifndef ONESPACE_SHIM_REQUEST_H
#define ONESPACE_SHIM_REQUEST_H

#include <signal.h>
#include <stdint.h>

#include "host/protocol.h"
#include "shim/shim.h"

struct sent_fds {
    unsigned count;
    int fds[PROTOCOL_FDS_MAX];
    int32_t numbers[PROTOCOL_FDS_MAX];
};

/* Sends the job with arguments, environment, descriptors, limits, affinity and umask. mask: the
 * task's signal mask. 0 or -errno; *sent tells what was sent. */
int request_send(int socket, const struct shim_job *job, struct sent_fds *sent,
                 const sigset_t *mask);
/* Closes this process's copies of what was sent. */
void request_close_copies(const struct sent_fds *sent);

#endif
