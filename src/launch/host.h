/* src/launch/host.h: the host of a named space: the process that is the root of the space and runs
 * the tasks that shims ask for.
 *
 * A shim connects (arrivals.c) and sends a request (request.c). The host holds it until all ranks
 * of its launch have arrived, queues it, and starts its task (host.c). From then on the shim is a
 * client of the host, until its task has ended. Ranks of one launcher start together or fail
 * together (host_launch.c).
 *
 * The thread that polls owns all of this state. The thread that waits for tasks uses `spawned`,
 * `status_pipe` and `socket_path` alone. */
#ifndef ONESPACE_LAUNCH_HOST_H
#define ONESPACE_LAUNCH_HOST_H

#include <semaphore.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

#include "launch/identity.h"
#include "launch/protocol.h"
#include "launch/report.h"
#include "onespace.h"

struct client;
struct host;
struct launch;

/* ---- request.c: what one shim asks for ---- */

/* From the first to the last descriptor that a shim sends. The host serves nothing else meanwhile.
 */
enum { DESCRIPTORS_TIMEOUT_MS = 10000 };

/* The descriptors that a task inherits from its shim.
 *
 * Under Hydra rank k inherits about 2k descriptors, so all ranks together inherit as many as the
 * square of their number. They never pass through the host: the new task receives them itself, from
 * its shim's socket, after it has closed everything else. */
struct descriptors {
    unsigned count;
    int *fds;            /* as received */
    int32_t *numbers;    /* the number of each in the task */
    struct rlimit limit; /* RLIMIT_NOFILE of the task: set last, it may be below a number */
    uint64_t deadline;   /* for receiving them: CLOCK_MONOTONIC, ns */
    const char *failed;  /* the step that failed, or NULL */
};

/* Runs as the new task, whose only descriptor is the shim's socket. Allocates nothing: the task may
 * be killed at any instruction, and the memory is the host's. 0, or -errno with `failed` set. */
int descriptors_assume(struct descriptors *descriptors, int socket);

struct request {
    struct protocol_request head;
    size_t received;            /* bytes of the head and the text */
    char *text, **argv, **envp; /* envp: with room for TOPOLOGY_VARIABLES more */
    struct descriptors descriptors;
    int directory;    /* the shim's working directory, or -1 */
    struct peer peer; /* the shim */
    struct identity_change change;
    struct launch *launch; /* NULL: started by no launcher */
    int socket;
    int64_t deadline_ms; /* for the request to arrive: CLOCK_MONOTONIC */
    int fds_requested;   /* the shim was asked for its descriptors */
    struct request *next;
};

/* Reads what has arrived at the socket into a zeroed request, without blocking: 1 when the request
 * is complete, 0 when more is to come (call again), or -errno. The caller frees the request in any
 * case. */
int request_receive(struct request *request, int socket);
/* Asks the shim for its working directory and descriptors, which request_spawn needs. */
int request_ask_fds(const struct request *request);
/* Starts the task, when the shim has begun to answer. The rest must arrive within
 * DESCRIPTORS_TIMEOUT_MS. The shim has passed identity_check. Returns the task's id, or -errno,
 * with *message if there is more to say than the error. */
int request_spawn(struct request *request, char *message, size_t size);
/* Frees the request and closes its descriptors, except the socket. */
void request_free(struct request *request);

/* ---- host_launch.c: the ranks that one launcher starts in a space ---- */

struct launch {
    uint64_t id;
    unsigned ranks;    /* that the launcher starts on this node */
    unsigned members;  /* requests and clients */
    unsigned running;  /* clients among them */
    unsigned ended;    /* clients whose task has ended, which their shims do not know yet */
    int64_t ended_ms;  /* when the first of these tasks ended */
    unsigned joined;   /* members so far, and those that have left */
    int64_t joined_ms; /* the last one */
    int token;         /* for say_once_claim; negative: there was no descriptor for it */
    int error;         /* of the rank that could not start, or 0 */
    int64_t failed_ms;
    uint32_t refused_before; /* calls that failed for lack of mappings before the launch began */
    int shortage_reported;   /* that mappings have run out */
    int64_t exhausted_ms;    /* since when no mappings have been left, or 0 */
    char message[1024];      /* why it failed, or a warning that was not sent yet */
    struct launch *next;
};

/* Makes a received request a member of its launch. NULL: started by no launcher, or out of memory.
 * The first member learns whether all ranks fit. */
struct launch *launch_join(struct host *host, const struct protocol_request *head);
/* Removes a member. */
void launch_leave(struct host *host, struct launch *launch);
/* Closes the request's connection, removes it from its launch and frees it. */
void launch_drop(struct host *host, struct request *request);
/* Tells the shim that the host has its request: 0 or -errno. */
int launch_acknowledge(struct request *request);
/* Marks the launch as reported: no shim of it prints another message. */
void launch_mark_reported(struct launch *launch);
/* Refuses the request, and with it all waiting requests of its launch; frees them. */
void launch_refuse(struct host *host, struct request *request, int error, const char *message);
/* Kills the tasks of failed launches that their launchers have not ended. */
void launch_kill_failed(struct host *host);
/* Whether launch_kill_failed will have something to do. */
int launch_kill_is_pending(const struct host *host);
/* Called for some seconds after a system call has failed for lack of mappings. Tells the running
 * ranks of each launch, and fails a launch that has had no mappings for five seconds: ranks that
 * wait for one that cannot continue would wait for ever. */
void launch_check_mappings(struct host *host);
/* A member's task has ended. If it ended badly and mappings have run out, the launch has failed,
 * and its shims get the reason, once per launch. */
void launch_report_shortage(struct host *host, struct launch *launch, int status);

/* Keep the exit status of a job as Hydra would report it for processes. No effect where tracing is
 * not allowed, or while another launch is traced.
 *
 * hydra_status_hold: called when the task of `failed` has ended badly, before its shim learns that;
 * until shortly after hydra_status_release, when all tasks of the launch on this host have ended.
 * hydra_status_hold_all: called when all tasks have ended, before any shim learns that; until each
 * shim has begun to exit, so that nothing can change its status. */
void hydra_status_hold(const struct host *host, const struct client *failed);
void hydra_status_release(const struct launch *launch);
void hydra_status_hold_all(const struct host *host, const struct launch *launch);
/* Whether a thread of the host still holds shims. The host must not end before. */
int hydra_status_is_held(void);

/* ---- host.c ---- */

/* A shim whose task was started. */
struct client {
    int socket; /* -1: the shim is gone */
    int task;   /* id, 0: none */
    int pid;
    uint64_t start_ticks; /* of that PID */
    struct peer peer;     /* the shim */
    uint32_t hydra;       /* enum protocol_hydra */
    char program[256];    /* as it was named */
    int has_launcher_number, is_first;
    int number_is_withheld; /* the launcher gave it a number, which it cannot have in this space */
    struct launch *launch;  /* NULL: started by no launcher */
    int64_t started_ms;     /* CLOCK_MONOTONIC */
    uint64_t forwarded;     /* signals that the shim has forwarded; bit n-1 for signal n */
    int has_ended;          /* the task, with `status`, which the shim does not know yet */
    struct onespace_status status;
    struct client *next;
};

struct host {
    char socket_path[128];
    int spare_fd; /* closed when no other descriptor is free */
    int listener;
    int status_pipe[2]; /* the waiting thread writes statuses; id 0: mappings have run out */
    struct client *clients;
    struct request *arrivals; /* not received completely */
    int arrival_count;
    struct request *waiting; /* received; started when all ranks have arrived */
    int waiting_count;
    struct request *queue; /* to be started, in this order */
    struct launch *launches;
    int64_t mappings_counted_ms; /* when mappings were counted last */
    char space_error[512];     /* why there is no space, or empty: then all requests are refused */
    sem_t spawned;             /* counts tasks that the waiting thread has not waited for */
    int ranks_seen;            /* refused, queued or started; and peers that sent something else */
    int64_t requested_ms;      /* the last request, or the start */
    int64_t others_late_ms;    /* when other ranks will be late; 0: nothing waits for them */
    int ranks_expected;        /* that the launcher starts on this node, or -1 */
    int launcher;              /* its PID, or 0 */
    struct report_total total; /* of the tasks that ended since the space was last empty */
};

int64_t host_now_ms(void); /* CLOCK_MONOTONIC */
/* Moves the held requests to the queue. complete: they are all that the launcher starts on this
 * node. */
void host_queue_held(struct host *host, int complete);

/* ---- arrivals.c ---- */

/* No connections are accepted while so many have not sent their request. */
enum { HOST_ARRIVALS_MAX = 4096 };

void host_reserve_fd(struct host *host);
/* Accepts a connection. */
void host_accept(struct host *host);
/* Holds or refuses the requests that have arrived. Closes the connections of peers that went away
 * or whose time is over. */
void host_serve_arrivals(struct host *host);
/* Milliseconds until the time of the first of the arrivals is over; -1: there are none. */
int host_arrival_timeout(const struct host *host);

#endif
