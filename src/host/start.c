/* src/host/start.c: from a held job to its task. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/job/time_slices.h"
#include "host/protocol.h"
#include "host/serve.h"
#include "onespace.h"

time_t host_now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

/* Invariant: a space has one group of numbered tasks at a time, with one barrier. The ranks of a
 * second launcher (in a space that the user named) would take numbers of that group, and the
 * barrier would count them. So none of them gets a number, even if the group ends while they are
 * started. */
static int must_be_apart(const struct host *host, uint64_t launch)
{
    for (const struct client *client = host->clients; client; client = client->next)
        if (client->is_numbered && client->is_apart == (client->launch == launch))
            return 1;
    return 0;
}

static void set_apart(const struct host *host, struct job *job, struct client *client)
{
    struct protocol_request *request = &job->request;
    client->launch = request->launch;
    client->is_numbered = request->number >= 0;
    client->is_first = request->number == 0;
    client->is_apart = client->is_numbered && must_be_apart(host, request->launch);
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

/* Starts one held job and answers its shim. */
static void start_job(struct host *host, struct job *job)
{
    struct protocol_reply reply = {.kind = PROTOCOL_ANSWER};
    struct client *client = calloc(1, sizeof(*client));
    if (client)
        set_apart(host, job, client);
    int id = client ? job_spawn(job, reply.message, sizeof(reply.message)) : -ENOMEM;
    int socket = job->socket;
    if (client)
        snprintf(client->program, sizeof(client->program), "%s", job->argv[0]);
    host->seen++;
    if (id > 0) {
        reply.status.id = client->task = id;
        reply.status.pid = client->pid = onespace_pid(id);
        warn_of_other_launcher(client, &reply);
        client->has_time_slices = !job->request.kernel_slices;
        if (client->has_time_slices)
            time_slices_add(job->request.cpus, job->request.cpus_size);
        sem_post(&host->spawned);
    }
    job_free(job);
    reply.error = id < 0 ? id : 0;
    if (id < 0 && !reply.message[0])
        snprintf(reply.message, sizeof(reply.message), "%s", strerror(-id));
    if (protocol_send(socket, &reply, sizeof(reply)) < 0 && id > 0)
        (void)!onespace_kill(id, SIGKILL);
    if (id < 0) {
        close(socket);
        free(client);
        return;
    }
    client->socket = socket;
    client->started = host_now_s();
    client->next = host->clients;
    host->clients = client;
}

void host_start_held(struct host *host, int complete)
{
    while (host->held) {
        struct job *job = host->held;
        host->held = job->next;
        host->held_count--;
        if (complete)
            job->request.flags |= ONESPACE_SPAWN_TOGETHER;
        start_job(host, job);
    }
}
