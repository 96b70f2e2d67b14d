/* src/host/serve.h: the state of a host, shared by the files that serve its shims.
 *
 * Only the thread that polls uses it; the one that waits for tasks sees `spawned`, `ends` and
 * `socket_path` alone. */
#ifndef ONESPACE_HOST_SERVE_H
#define ONESPACE_HOST_SERVE_H

#include <semaphore.h>
#include <stdint.h>
#include <time.h>

#include "host/job/job.h"
#include "host/job/report.h"
#include "host/launch.h"

struct client {
    int socket; /* -1: the shim is gone */
    int task;   /* id, 0: none */
    int pid;
    uint64_t start_ticks;                /* of that PID */
    struct peer peer;                    /* the shim */
    int is_hydra;                        /* its launcher */
    char program[256];                   /* as it was named */
    int is_numbered, is_first, is_apart; /* apart: it should have a number and has none */
    struct launch *launch;               /* NULL: not of a launcher */
    time_t started;                      /* seconds of CLOCK_MONOTONIC */
    struct client *next;
};

struct host {
    char socket_path[128];
    int reserve;           /* a descriptor to close when no other is free */
    int listener, ends[2]; /* the pipe that the waiting thread writes statuses to; one of no task
                            * (id 0): mappings have run out */
    struct client *clients;
    struct job *arrivals; /* of which the request has not arrived as a whole */
    int arrival_count;
    struct job *held; /* received; started when all have come */
    int held_count;
    struct job *queue; /* to be started, in this order */
    struct launch *launches;
    int64_t looked_ms;  /* when mappings were counted last */
    char unusable[256]; /* why there is no space, or empty: then all jobs are refused */
    sem_t spawned;
    int seen;     /* shims whose task was refused, or is or was in the queue; and peers that sent
                   * something else */
    int launcher; /* its PID, or 0 */
    int expected; /* tasks that the launcher starts on this node, or -1 */
    struct report_total total; /* of the tasks that ended since the space was last empty */
};

/* No more connections are accepted while so many are still to send their request. */
enum { HOST_ARRIVALS_MAX = 4096 };

/* accept.c: takes a connection on; and the jobs of shims whose request has arrived, or closes the
 * connections of those that went away or have had their time. */
void host_accept(struct host *host);
void host_reserve(struct host *host);
void host_serve_arrivals(struct host *host);
/* accept.c: ms until the first of the arrivals has had its time, -1: there is none. */
int host_arrival_timeout(const struct host *host);

/* start.c: queues the jobs that were held back. complete: they are all that the launcher starts on
 * this node. */
void host_start_held(struct host *host, int complete);
/* start.c: asks shims in the queue for their descriptors, and starts the tasks of those that have
 * answered. is_late: none has for a while. */
void host_serve_queue(struct host *host, int is_late);
/* start.c: CLOCK_MONOTONIC. */
time_t host_now_s(void);
int64_t host_now_ms(void);
/* client.c: reads a shim's socket: a signal to pass on, or the end of the shim. */
void host_serve_client(struct client *client);
/* client.c: tells the shim of a task that has ended. */
void host_pass_end_on(struct host *host);

#endif
