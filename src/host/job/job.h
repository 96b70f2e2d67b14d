/* src/host/job/job.h: what one shim asks for: received, started as a task, freed. */
#ifndef ONESPACE_HOST_JOB_H
#define ONESPACE_HOST_JOB_H

#include "host/identity/identity.h"
#include "host/protocol.h"
#include "onespace.h"

/* A request as it came in, with everything that must be freed. */
struct job {
    struct protocol_request request;
    int fds[PROTOCOL_FDS_MAX];
    int32_t numbers[PROTOCOL_FDS_MAX];
    struct onespace_fd_map map[PROTOCOL_FDS_MAX];
    unsigned map_count;
    int directory, peer; /* the shim's PID */
    struct identity_change change;
    char *texts, **argv, **envp;
    int socket;
    struct job *next;
};

/* Fills a zeroed job from the socket: 0 or -errno. The job must be freed in either case. */
int job_receive(struct job *job, int socket);
/* Starts the task: its id, or -errno with *message if there is more to say than the error. The shim
 * has passed identity_check. */
int job_spawn(struct job *job, char *message, size_t size);
/* Frees the job and closes its descriptors, but for the socket. */
void job_free(struct job *job);

#endif
