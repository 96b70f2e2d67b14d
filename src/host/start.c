/* src/host/start.c: from a held job to its task. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/proc.h"
#include "host/job/oversubscribed.h"
#include "host/protocol.h"
#include "host/room/room.h"
#include "host/serve.h"
#include "onespace.h"

time_t host_now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

int64_t host_now_ms(void)
{
    return (int64_t)(futex_now_ns() / 1000000);
}

/* Invariant: a space has one group of numbered tasks at a time, with one barrier. The ranks of a
 * second launcher (in a space that the user named) would take numbers of that group, and the
 * barrier would count them. So none of them gets a number, even if the group ends while they are
 * started. */
static int must_be_apart(const struct host *host, const struct launch *launch)
{
    for (const struct client *client = host->clients; client; client = client->next)
        if (client->is_numbered && client->is_apart == (client->launch == launch))
            return 1;
    return 0;
}

static void set_apart(const struct host *host, struct job *job, struct client *client)
{
    struct protocol_request *request = &job->request;
    client->launch = job->launch;
    client->is_numbered = request->number >= 0;
    client->is_first = request->number == 0;
    client->is_hydra = request->is_hydra != 0;
    client->peer = job->peer;
    client->is_apart = client->is_numbered && must_be_apart(host, job->launch);
    if (client->is_apart) {
        request->number = request->ntasks = -1;
        request->flags &= ~ONESPACE_SPAWN_TOGETHER;
    }
}

/* Once per launch: only its first rank is told. */
static void warn_of_other_launcher(const struct client *client, struct protocol_reply *reply)
{
    if (client->is_apart && client->is_first)
        snprintf(reply->message, sizeof(reply->message),
                 "ranks of another launcher are in this space: those of this one have no number "
                 "there and no onespace_barrier; use another --space, or start all with one "
                 "launcher");
}

/* The task runs: the shim learns which it is. */
static void adopt(struct host *host, const struct job *job, struct client *client, int id,
                  struct protocol_reply *reply)
{
    struct proc_stat stat;
    reply->status.id = client->task = id;
    reply->status.pid = client->pid = onespace_pid(id);
    client->start_ticks = proc_read_stat(client->pid, &stat) == 0 ? stat.start_ticks : 0;
    snprintf(client->program, sizeof(client->program), "%s", job->argv[0]);
    warn_of_other_launcher(client, reply);
    oversubscribed_add(job->change.wants.cpus, job->change.wants.cpus_size);
    sem_post(&host->spawned);
    if (protocol_send(job->socket, reply, sizeof(*reply)) < 0)
        (void)!onespace_kill(id, SIGKILL);
    if (client->launch)
        client->launch->running++; /* and stays a member */
    client->socket = job->socket;
    client->started = host_now_s();
    client->next = host->clients;
    host->clients = client;
}

/* What the shim is to learn of a failure. -EPIPE: it is gone itself, which is its launcher's
 * business, not a failure to start. */
static void refuse(struct host *host, struct job *job, int error, char *message, size_t size)
{
    struct launch *launch = job->launch;
    if (error == -EPIPE || error == -ECONNRESET) {
        close(job->socket);
        job_free(job);
        launch_leave(host, launch);
        return;
    }
    if (error == -EOWNERDEAD)
        snprintf(message, size, "the reaper of the space was killed, and the tasks with it");
    if (launch)
        room_explain(error, launch->running, launch->ranks, message, size);
    launch_refuse(host, job, error, message);
}

/* Starts the task of a shim that has been asked for its descriptors and has answered. */
static void start_job(struct host *host, struct job *job)
{
    struct protocol_reply reply = {.kind = PROTOCOL_ANSWER};
    struct client *client = calloc(1, sizeof(*client));
    if (client)
        set_apart(host, job, client);
    int id = client ? job_spawn(job, reply.message, sizeof(reply.message)) : -ENOMEM;
    if (id > 0) {
        adopt(host, job, client, id, &reply);
        job_free(job);
    } else {
        free(client);
        refuse(host, job, id, reply.message, sizeof(reply.message));
    }
}

void host_start_held(struct host *host, int complete)
{
    struct job **last = &host->queue;
    for (struct job *job = host->held; complete && job; job = job->next)
        job->request.flags |= ONESPACE_SPAWN_TOGETHER;
    while (*last)
        last = &(*last)->next;
    *last = host->held;
    host->seen += host->held_count;
    host->held = NULL;
    host->held_count = 0;
}

static int has_answered(const struct job *job)
{
    struct pollfd answer = {job->socket, POLLIN, 0};
    return job->is_asked && poll(&answer, 1, 0) > 0; /* or is gone: job_spawn tells */
}

/* Two at a time, so that the next shim answers while a task is made, and few descriptors are in
 * flight. If those two are late, stopped perhaps, they delay no other. */
static void ask_next(struct host *host, int is_late)
{
    enum { ASKED_AT_ONCE = 2 };
    int asked = 0;
    for (struct job *job = host->queue; job; job = job->next) {
        asked += job->is_asked && !is_late;
        if (job->is_asked || asked >= ASKED_AT_ONCE)
            continue;
        job->is_asked = 1;
        asked++;
        (void)job_ask(job); /* if the shim is gone, reading tells */
    }
}

/* The first in the queue whose shim has answered. */
static struct job *take_answered(struct host *host)
{
    for (struct job **at = &host->queue; *at; at = &(*at)->next)
        if (has_answered(*at)) {
            struct job *job = *at;
            *at = job->next;
            return job;
        }
    return NULL;
}

void host_serve_queue(struct host *host, int is_late)
{
    struct job *job;
    ask_next(host, is_late);
    while ((job = take_answered(host))) {
        start_job(host, job); /* or refuses it, and others in the queue */
        ask_next(host, 0);
    }
}
