/* src/host/launch.c: see launch.h. */
#include "host/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/job/told.h"
#include "host/peer.h"
#include "host/room/room.h"
#include "host/serve.h"
#include "onespace.h"
#include "space/registry.h"

enum { GRACE_MS = 2000, FORGET_MS = 5000 };

static void fail(struct launch *launch, int error, const char *message)
{
    if (launch->error)
        return;
    launch->error = error;
    launch->failed_ms = host_now_ms();
    snprintf(launch->message, sizeof(launch->message), "%s", message);
}

static uint32_t refused(void)
{
    return atomic_load_explicit(&space_registry()->mappings_exhausted, memory_order_relaxed);
}

static struct launch *add(struct host *host, const struct protocol_request *request)
{
    struct launch *launch = calloc(1, sizeof(*launch));
    if (!launch)
        return NULL;
    launch->id = request->launch;
    launch->ranks = request->ntasks > 0 ? (unsigned)request->ntasks : 1;
    launch->token = told_make();
    launch->refused = refused();
    launch->next = host->launches;
    host->launches = launch;
    int room = room_check(ROOM_BY_HOST, launch->ranks, launch->message, sizeof(launch->message));
    if (room < 0) {
        launch->error = room;
        launch->failed_ms = host_now_ms();
    }
    return launch;
}

/* A failed one is remembered for those of its shims that come late, but not for the next job of a
 * launcher that has several. */
static void forget(struct host *host)
{
    for (struct launch **at = &host->launches; *at;) {
        struct launch *launch = *at;
        if (launch->members || (launch->error && host_now_ms() - launch->failed_ms < FORGET_MS)) {
            at = &launch->next;
            continue;
        }
        *at = launch->next;
        if (launch->token >= 0)
            close(launch->token);
        free(launch);
    }
}

struct launch *launch_join(struct host *host, const struct protocol_request *request)
{
    if (request->number < 0)
        return NULL;
    forget(host);
    struct launch *launch = host->launches;
    while (launch && launch->id != request->launch)
        launch = launch->next;
    if (!launch)
        launch = add(host, request);
    if (launch)
        launch->members++;
    return launch;
}

void launch_leave(struct host *host, struct launch *launch)
{
    if (!launch)
        return;
    launch->members--;
    forget(host);
}

int launch_greet(struct job *job)
{
    struct launch *launch = job->launch;
    struct protocol_reply reply = {.kind = PROTOCOL_HELD};
    if (launch && !launch->error) {
        memcpy(reply.message, launch->message, sizeof(reply.message));
        launch->message[0] = 0;
    }
    return protocol_send_with_fd(job->socket, &reply, sizeof(reply), launch ? launch->token : -1);
}

void launch_silence(struct launch *launch)
{
    if (launch && launch->token >= 0 && told_claim(launch->token))
        told_done(launch->token);
}

static void answer(struct host *host, struct job *job, int error, const char *message)
{
    struct protocol_reply reply = {.kind = PROTOCOL_ANSWER, .error = error};
    struct launch *launch = job->launch;
    snprintf(reply.message, sizeof(reply.message), "%s", message[0] ? message : strerror(-error));
    (void)protocol_send(job->socket, &reply, sizeof(reply)); /* if the shim is gone, nobody cares */
    close(job->socket);
    job_free(job);
    launch_leave(host, launch);
}

/* Takes the jobs of a launch out of a list and puts them before those of another. */
static unsigned take(struct job **list, const struct launch *launch, struct job **taken)
{
    unsigned count = 0;
    for (struct job **at = list; *at;) {
        struct job *job = *at;
        if (job->launch != launch) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        job->next = *taken;
        *taken = job;
        count++;
    }
    return count;
}

void launch_refuse(struct host *host, struct job *job, int error, const char *message)
{
    struct launch *launch = job->launch;
    if (!launch) {
        answer(host, job, error, message);
        return;
    }
    struct job *waiting = NULL;
    char text[sizeof(launch->message)];
    fail(launch, error, message[0] ? message : strerror(-error));
    memcpy(text, launch->message, sizeof(text));
    error = launch->error;
    unsigned held = take(&host->held, launch, &waiting);
    host->held_count -= (int)held;
    host->seen += (int)held;
    (void)take(&host->queue, launch, &waiting);
    answer(host, job, error, text);
    while (waiting) {
        job = waiting;
        waiting = job->next;
        answer(host, job, error, text);
    }
}

int launch_is_ending(const struct host *host)
{
    for (const struct launch *launch = host->launches; launch; launch = launch->next)
        if (launch->error && launch->running)
            return 1;
    return 0;
}

int launch_is_over(const struct host *host)
{
    for (const struct launch *launch = host->launches; launch; launch = launch->next)
        if (launch->error && host_now_ms() - launch->failed_ms >= GRACE_MS)
            return 1;
    return 0;
}

void launch_end_failed(struct host *host)
{
    if (!launch_is_ending(host))
        return;
    int64_t now = host_now_ms();
    for (struct client *client = host->clients; client; client = client->next) {
        const struct launch *launch = client->launch;
        if (!launch || !launch->error || now - launch->failed_ms < GRACE_MS)
            continue;
        (void)peer_signal_group(client->pid, client->start_ticks, SIGKILL);
        (void)!onespace_kill(client->task, SIGKILL);
    }
}

/* The task that has ended has given back its own mappings, so there may be some now. Its peers wait
 * for it, and not every launcher ends them. */
void launch_say_shortage(struct launch *launch, int status, char *message, size_t size)
{
    int is_bad = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    char text[sizeof(launch->message)] = "";
    if (!launch || !is_bad || launch->error || refused() == launch->refused)
        return;
    (void)room_say_mappings(launch->running, launch->ranks, text, sizeof(text));
    if (!launch->is_short_told && !message[0])
        snprintf(message, size, "%s", text);
    launch->is_short_told |= message[0] != 0;
    fail(launch, -ENOMEM, text);
}

/* To all of its shims, since the launcher may end any of them before it has said something. */
static void tell(struct host *host, const struct launch *launch, const char *message)
{
    struct protocol_reply reply = {.kind = PROTOCOL_TOLD};
    snprintf(reply.message, sizeof(reply.message), "%s", message);
    for (struct client *client = host->clients; client; client = client->next)
        if (client->launch == launch && client->socket >= 0)
            (void)protocol_send(client->socket, &reply, sizeof(reply));
}

static void watch_one(struct host *host, struct launch *launch, int64_t now)
{
    char message[sizeof(launch->message)] = "";
    if (launch->error || !launch->running)
        return;
    int is_gone = room_say_mappings(launch->running, launch->ranks, message, sizeof(message));
    if (!launch->is_short_told && refused() != launch->refused)
        tell(host, launch, message);
    launch->is_short_told |= refused() != launch->refused;
    if (!is_gone) {
        launch->short_ms = 0;
        return;
    }
    if (!launch->short_ms)
        launch->short_ms = now;
    if (now - launch->short_ms < GRACE_MS)
        return;
    fail(launch, -ENOMEM, message);
    launch->failed_ms = launch->short_ms; /* the time to end by itself has passed */
}

void launch_watch_mappings(struct host *host)
{
    enum { AGAIN_MS = 500 };
    int64_t now = host_now_ms();
    if (now - host->looked_ms < AGAIN_MS)
        return;
    host->looked_ms = now;
    for (struct launch *launch = host->launches; launch; launch = launch->next)
        watch_one(host, launch, now);
}
