/* src/host/accept.c: from a shim's connection to its job. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "host/protocol.h"
#include "host/serve.h"

enum { REQUEST_TIMEOUT_S = 2 };

#define NO_ROOM                                                                                    \
    "the host of the space has no descriptors left: raise the hard limit (ulimit -Hn) where the "  \
    "space is started"

/* Receives a shim's job: NULL when it is malformed or the shim is gone, and the connection is
 * closed. */
static struct job *receive(struct host *host, int socket)
{
    struct timeval patience = {REQUEST_TIMEOUT_S, 0};
    struct job *job = calloc(1, sizeof(*job));
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (!job || job_receive(job, socket) < 0) {
        if (job)
            job_free(job);
        close(socket);
        host->seen++;
        return NULL;
    }
    job->socket = socket;
    job->peer = protocol_peer(socket);
    job->launch = launch_join(host, &job->request);
    (void)launch_greet(job); /* if the shim is gone, reading tells */
    return job;
}

/* 0, or an error with a message. */
static int check(const struct host *host, struct job *job, char *message, size_t size)
{
    if (host->unusable[0]) {
        snprintf(message, size, "%s", host->unusable);
        return -EAGAIN;
    }
    if (job->request.is_lost) { /* its shim has said why */
        launch_silence(job->launch);
        return -EOWNERDEAD;
    }
    if (job->launch && job->launch->error)
        return job->launch->error; /* launch_refuse has its message */
    return identity_check(job->peer, &job->request.told, host->launcher, &job->change, message,
                          size);
}

/* If the launcher told how many ranks it starts on this node, the host starts them together: ranks
 * that spin until the last one has come would take the CPUs that the last ones need to start. */
static void serve_new(struct host *host, int socket)
{
    char message[1024] = "";
    struct job *job = receive(host, socket), **last = &host->held;
    if (!job)
        return;
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
    (void)!readlink("/proc/self/exe", greeting.file, sizeof(greeting.file) - 1);
    (void)protocol_send(socket, &greeting, sizeof(greeting)); /* if it is gone, reading tells */
}

/* Without this a shim that cannot be accepted would wait for ever, and poll would report it at
 * once, again and again. Its launch learns of it by the shim's request. */
static void turn_away_for_lack_of_room(struct host *host)
{
    close(host->reserve);
    int socket = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC);
    if (socket >= 0 && protocol_peer(socket) >= 0) {
        greet(socket);
        struct job *job = receive(host, socket);
        if (job) {
            host->seen++;
            launch_refuse(host, job, -EMFILE, NO_ROOM);
        }
    } else if (socket >= 0) {
        close(socket);
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
    struct arrival *arrival = socket >= 0 ? calloc(1, sizeof(*arrival)) : NULL;
    if (!arrival || protocol_peer(socket) < 0) {
        if (socket >= 0)
            close(socket);
        free(arrival);
        return;
    }
    greet(socket);
    *arrival = (struct arrival){socket, 0, host->arrivals};
    host->arrivals = arrival;
}

/* Whether the head of a request has arrived, or the shim is gone. Never blocks: a stopped shim must
 * not delay the others. */
static int has_request(struct arrival *arrival)
{
    struct protocol_request request;
    ssize_t size = recv(arrival->socket, &request, sizeof(request), MSG_PEEK | MSG_DONTWAIT);
    struct pollfd peer = {arrival->socket, POLLRDHUP, 0};
    if (poll(&peer, 1, 0) > 0)
        return 1; /* gone: the next read tells */
    arrival->is_partial = size > 0;
    return size == 0 || size == (ssize_t)sizeof(request) ||
           (size < 0 && errno != EAGAIN && errno != EINTR);
}

void host_serve_arrivals(struct host *host)
{
    for (struct arrival **at = &host->arrivals; *at;) {
        struct arrival *arrival = *at;
        if (!has_request(arrival)) {
            at = &arrival->next;
            continue;
        }
        *at = arrival->next;
        serve_new(host, arrival->socket);
        free(arrival);
    }
}
