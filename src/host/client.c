/* src/host/client.c: a shim's task, from its start until the shim knows how it ended. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/job/departure.h"
#include "host/protocol.h"
#include "host/serve.h"
#include "host/job/time_slices.h"
#include "onespace.h"

enum { ALONE_S = 2 };

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

static time_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

/* Only when the task has ended, when it is certain; not if it ended before others could come. */
static void warn_if_alone(const struct host *host, const struct client *client,
                          struct protocol_reply *reply)
{
    if (host->seen == 1 && host->expected > 1 && now() - client->started >= ALONE_S)
        snprintf(reply->message, sizeof(reply->message),
                 "the launcher started %d ranks on this node, but no other one came to this space: "
                 "start all of them with the same `onespace run`; --verbose names the space",
                 host->expected);
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
    client->started = now();
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

/* The shim is gone: kill its task and the rest of its process group, so that nothing is left. */
static void abandon(struct client *client)
{
    close(client->socket);
    client->socket = -1;
    if (client->pid > 0)
        kill(-client->pid, SIGKILL);
    (void)!onespace_kill(client->task, SIGKILL);
}

static void pass_signal_on(const struct client *client, const struct protocol_signal *received)
{
    union sigval value = {.sival_ptr = (void *)(uintptr_t)received->value};
    if (received->is_queued)
        sigqueue(client->pid, received->number, value);
    else if (kill(-client->pid, received->number) != 0) /* as terminals and launchers do */
        (void)!onespace_kill(client->task, received->number);
}

void host_serve_client(struct client *client)
{
    struct protocol_signal received;
    ssize_t got = recv(client->socket, &received, sizeof(received), MSG_DONTWAIT);
    if (got == (ssize_t)sizeof(received)) {
        pass_signal_on(client, &received);
        return;
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        abandon(client);
}

/* Once per space: only the shim of the first task that left is told. */
static void warn_of_departure(const struct client *client, struct protocol_reply *reply)
{
    if (!reply->message[0])
        departure_say(client->task, client->program, reply->message, sizeof(reply->message));
}

static void add_up(struct host *host, struct protocol_reply *reply)
{
    report_add(&host->total, &reply->status);
    if (host->clients->next || host->held)
        return;
    reply->total = host->total;
    host->total = (struct report_total){0};
}

void host_pass_end_on(struct host *host)
{
    struct protocol_reply reply = {.kind = PROTOCOL_ENDED};
    if (read(host->ends[0], &reply.status, sizeof(reply.status)) != (ssize_t)sizeof(reply.status))
        return;
    for (struct client **at = &host->clients; *at; at = &(*at)->next) {
        struct client *client = *at;
        if (client->task != reply.status.id)
            continue;
        add_up(host, &reply);
        if (client->socket >= 0) {
            warn_if_alone(host, client, &reply);
            warn_of_departure(client, &reply);
            protocol_send(client->socket, &reply, sizeof(reply));
            close(client->socket);
        }
        if (client->has_time_slices)
            time_slices_remove();
        *at = client->next;
        free(client);
        return;
    }
}
