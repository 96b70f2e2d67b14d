/* src/host/job/job.h: what one shim asks for: received, started as a task, freed. */
#ifndef ONESPACE_HOST_JOB_H
#define ONESPACE_HOST_JOB_H

#include "host/identity/identity.h"
#include "host/job/descriptors.h"
#include "host/peer.h"
#include "host/protocol.h"
#include "onespace.h"

/* A request as it came in, with everything that must be freed. */
struct job {
    struct protocol_request request;
    size_t received; /* bytes of the request and its texts */
    struct descriptors descriptors;
    int directory;
    struct peer peer; /* the shim */
    struct identity_change change;
    struct launch *launch; /* NULL: not of a launcher */
    char *texts, **argv, **envp;
    int socket;
    int64_t deadline_ms; /* for the request to arrive: CLOCK_MONOTONIC */
    int is_asked;        /* for its descriptors */
    struct job *next;
};

/* Fills a zeroed job with what has arrived at the socket, without waiting: 1 when the request is
 * whole, 0 when the rest is still to come and this is to be called again, or -errno. The job must
 * be freed in any case. */
int job_receive(struct job *job, int socket);
/* Asks the shim for what job_spawn needs next. */
int job_ask(const struct job *job);
/* Starts the task when the shim has answered, which has until the deadline of descriptors.h to send
 * all: its id, or -errno with *message if there is more to
 * say than the error. The shim has passed identity_check. */
int job_spawn(struct job *job, char *message, size_t size);
/* Frees the job and closes its descriptors, but for the socket. */
void job_free(struct job *job);

#endif
