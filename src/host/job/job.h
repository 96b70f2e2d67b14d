/* src/host/job/job.h: what one shim asks for: received, started as a task, freed. */
#ifndef ONESPACE_HOST_JOB_H
#define ONESPACE_HOST_JOB_H

#include "host/identity/identity.h"
#include "host/job/descriptors.h"
#include "host/protocol.h"
#include "onespace.h"

/* A request as it came in, with everything that must be freed. */
struct job {
    struct protocol_request request;
    struct descriptors descriptors;
    int directory;
    int peer; /* the shim's PID */
    struct identity_change change;
    struct launch *launch; /* NULL: not of a launcher */
    char *texts, **argv, **envp;
    int socket;
    int is_asked; /* for its descriptors */
    struct job *next;
};

/* Fills a zeroed job from the socket: 0 or -errno. The job must be freed in either case. */
int job_receive(struct job *job, int socket);
/* Asks the shim for what job_spawn needs next. */
int job_ask(const struct job *job);
/* Starts the task when the shim has answered: its id, or -errno with *message if there is more to
 * say than the error. The shim has passed identity_check. */
int job_spawn(struct job *job, char *message, size_t size);
/* Frees the job and closes its descriptors, but for the socket. */
void job_free(struct job *job);

#endif
