/* src/host/client.c: a shim's task, from when it runs until the shim knows how it ended. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "host/hydra_status.h"
#include "host/job/departure.h"
#include "host/peer.h"
#include "host/protocol.h"
#include "host/serve.h"
#include "host/job/oversubscribed.h"
#include "onespace.h"

enum { ALONE_S = 2 };

/* Only when the task has ended, when it is certain; not if it ended before others could come. */
static void warn_if_alone(const struct host *host, const struct client *client,
                          struct protocol_reply *reply)
{
    if (host->seen == 1 && host->expected > 1 && host_now_s() - client->started >= ALONE_S)
        snprintf(reply->message, sizeof(reply->message),
                 "the launcher started %d ranks on this node, but no other one came to this space: "
                 "start all of them with the same `onespace run`; --verbose names the space",
                 host->expected);
}

/* The shim is gone: kill its task and the rest of its process group, so that nothing is left. */
static void abandon(struct client *client)
{
    close(client->socket);
    client->socket = -1;
    (void)peer_signal_group(client->pid, client->start_ticks, SIGKILL);
    (void)!onespace_kill(client->task, SIGKILL);
}

static void pass_signal_on(const struct client *client, const struct protocol_signal *received)
{
    union sigval value = {.sival_ptr = (void *)(uintptr_t)received->value};
    struct proc_stat stat;
    if (!received->is_queued) {
        /* as terminals and launchers do */
        if (peer_signal_group(client->pid, client->start_ticks, received->number) != 0)
            (void)!onespace_kill(client->task, received->number);
    } else if (proc_read_stat(client->pid, &stat) == 0 && stat.start_ticks == client->start_ticks) {
        sigqueue(client->pid, received->number, value);
    }
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
    if (host->clients->next || host->held || host->queue)
        return;
    reply->total = host->total;
    host->total = (struct report_total){0};
}

void host_pass_end_on(struct host *host)
{
    struct protocol_reply reply = {.kind = PROTOCOL_ENDED};
    if (read(host->ends[0], &reply.status, sizeof(reply.status)) != (ssize_t)sizeof(reply.status))
        return;
    if (reply.status.id == 0)
        launch_watch_mappings(host);
    for (struct client **at = &host->clients; *at; at = &(*at)->next) {
        struct client *client = *at;
        if (client->task != reply.status.id)
            continue;
        add_up(host, &reply);
        if (client->socket >= 0) {
            warn_if_alone(host, client, &reply);
            warn_of_departure(client, &reply);
            launch_say_shortage(client->launch, reply.status.status, reply.message,
                                sizeof(reply.message));
            if (!WIFEXITED(reply.status.status) || WEXITSTATUS(reply.status.status) != 0)
                hydra_status_hold(host, client);
            protocol_send(client->socket, &reply, sizeof(reply));
            close(client->socket);
        }
        oversubscribed_remove();
        *at = client->next;
        if (client->launch && --client->launch->running == 0)
            hydra_status_release(client->launch);
        launch_leave(host, client->launch);
        free(client);
        return;
    }
}
