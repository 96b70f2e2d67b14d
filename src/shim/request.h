/* src/shim/request.h: what the shim sends to the host: the job, and the state of this process. */
#ifndef ONESPACE_SHIM_REQUEST_H
#define ONESPACE_SHIM_REQUEST_H

#include <signal.h>
#include <stdint.h>

#include "host/protocol.h"
#include "shim/shim.h"

struct sent_fds {
    int directory; /* the working directory, or -1 */
    unsigned count;
    int fds[PROTOCOL_FDS_MAX]; /* what the task inherits, under the same numbers */
};

/* Sends the job with arguments and environment. mask: the task's signal
 * mask. 0 or -errno; *sent tells what is to be sent when the host asks for it. */
int request_send(int socket, const struct shim_job *job, struct sent_fds *sent,
                 const sigset_t *mask);
/* Tells a host that it does not get all ranks of the launch, and nothing about this process but its
 * number and the word. 0 or -errno. */
int request_send_absence(int socket, const struct shim_job *job, enum protocol_absence absence,
                         const char *word);
/* Sends the working directory and the descriptors. 0 or -errno. */
int request_send_fds(int socket, struct sent_fds *sent);
/* Closes this process's copies of what was sent. */
void request_close_copies(const struct sent_fds *sent);

#endif
