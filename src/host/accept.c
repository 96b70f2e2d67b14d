/* src/host/accept.c: from a shim's connection to its job. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "host/protocol.h"
#include "host/serve.h"

/* From the connection to the end of the request. A shim that was stopped for longer connects again.
 */
enum { REQUEST_TIMEOUT_MS = 10000 };

#define NO_ROOM                                                                                    \
    "the host of the space has no descriptors left: raise the hard limit (ulimit -Hn) where the "  \
    "space is started"

/* The peer sent no request, or only a part of one. A peer that sent nothing at all is no rank:
 * hosts that end and shims that fail connect to find out which sockets are dead (host_sweep). */
static void drop(struct host *host, struct job *job)
{
    host->seen += job->received > 0;
    close(job->socket);
    job_free(job);
}

/* A message that others will show on their terminals. */
static void text_of_peer(const char *text, char *message, size_t size)
{
    snprintf(message, size, "%s", text);
    for (char *at = message; *at; at++)
        if (text_is_control(*at))
            *at = '?';
}

/* 0, or an error with a message. */
static int check(const struct host *host, struct job *job, char *message, size_t size)
{
    if (host->unusable[0]) {
        snprintf(message, size, "%s", host->unusable);
        return -EAGAIN;
    }
    if (job->request.absence == PROTOCOL_LOST) { /* its shim has said why */
        launch_silence(job->launch);
        return -EOWNERDEAD;
    }
    if (job->request.absence != PROTOCOL_PRESENT) {
        text_of_peer(job->argv[0], message, size);
        return -ECONNREFUSED;
    }
    if (job->launch && job->launch->error)
        return job->launch->error; /* launch_refuse has its message */
    return identity_check(job->socket, &job->peer, &job->request.told, host->launcher, &job->change,
                          message, size);
}

static void join_launch(struct host *host, struct job *job)
{
    job->launch = launch_join(host, &job->request);
    (void)launch_greet(job); /* if the shim is gone, reading tells */
}

/* The job has been received. If the launcher told how many ranks it starts on this node, the host
 * starts them together: ranks that spin until the last one has come would take the CPUs that the
 * last ones need to start. */
static void hold(struct host *host, struct job *job)
{
    char message[1024] = "";
    struct job **last = &host->held;
    join_launch(host, job);
    int result = check(host, job, message, sizeof(message));
    if (result < 0) {
        host->seen++;
        launch_refuse(host, job, result, result == -EMFILE ? NO_ROOM : message);
        return;
    }
    while (*last)
        last = &(*last)->next;
    *last = job;
    host->held_count++;
    if (host->seen + host->held_count >= host->expected)
        host_start_held(host, host->held_count == host->expected);
}

static void greet(int socket)
{
    struct protocol_greeting greeting = {.header = protocol_header()};
    identity_tell(&greeting.told);
    (void)!readlink("/proc/self/exe", greeting.file, sizeof(greeting.file) - 1);
    (void)protocol_send(socket, &greeting, sizeof(greeting)); /* if it is gone, reading tells */
}

/* Makes a job that is still to arrive. NULL: the peer is another user's, or there is no memory, and
 * the connection is closed. */
static struct job *begin(int socket)
{
    struct peer peer;
    struct job *job = peer_note(socket, &peer) == 0 ? calloc(1, sizeof(*job)) : NULL;
    if (!job) {
        close(socket);
        return NULL;
    }
    job->socket = socket;
    job->directory = -1;
    job->peer = peer;
    job->deadline_ms = host_now_ms() + REQUEST_TIMEOUT_MS;
    greet(socket);
    return job;
}

/* Without this a shim that cannot be accepted would wait for ever, and poll would report it at
 * once, again and again. Its launch learns of it by the shim's request, for which the host waits:
 * it has no descriptor for another arrival. */
static void turn_away_for_lack_of_room(struct host *host)
{
    enum { TURN_AWAY_TIMEOUT_MS = 2000 };
    close(host->reserve);
    int socket = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC), result = 0;
    struct job *job = socket >= 0 ? begin(socket) : NULL;
    int64_t end = host_now_ms() + TURN_AWAY_TIMEOUT_MS, now;
    while (job && (result = job_receive(job, socket)) == 0 && (now = host_now_ms()) < end) {
        struct pollfd request = {socket, POLLIN, 0};
        (void)poll(&request, 1, (int)(end - now));
    }
    if (result > 0) {
        host->seen++;
        join_launch(host, job);
        launch_refuse(host, job, -EMFILE, NO_ROOM);
    } else if (job) {
        drop(host, job);
    }
    host_reserve(host);
}

void host_reserve(struct host *host)
{
    host->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void host_accept(struct host *host)
{
    int socket = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC);
    if (socket < 0 && (errno == EMFILE || errno == ENFILE)) {
        turn_away_for_lack_of_room(host);
        return;
    }
    struct job *job = socket >= 0 ? begin(socket) : NULL;
    if (!job)
        return;
    job->next = host->arrivals;
    host->arrivals = job;
    host->arrival_count++;
}

/* Never blocks: a shim that is stopped, or sends byte by byte, must not delay the others. */
void host_serve_arrivals(struct host *host)
{
    int64_t now = host_now_ms();
    for (struct job **at = &host->arrivals; *at;) {
        struct job *job = *at;
        int result = job_receive(job, job->socket);
        if (result == 0 && now < job->deadline_ms) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        job->next = NULL;
        host->arrival_count--;
        if (result > 0)
            hold(host, job);
        else
            drop(host, job);
    }
}

int host_arrival_timeout(const struct host *host)
{
    int64_t first = INT64_MAX, now = host_now_ms();
    for (const struct job *job = host->arrivals; job; job = job->next)
        if (job->deadline_ms < first)
            first = job->deadline_ms;
    return first == INT64_MAX ? -1 : first <= now ? 0 : (int)(first - now);
}
