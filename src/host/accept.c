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

static void refuse(int socket, int error, const char *message)
{
    struct protocol_reply reply = {.kind = PROTOCOL_ANSWER, .error = error};
    snprintf(reply.message, sizeof(reply.message), "%s", message);
    (void)protocol_send(socket, &reply, sizeof(reply)); /* if the shim is gone, nobody cares */
}

/* 0, or an error of which the shim has been told. */
static int receive(const struct host *host, struct job *job, int socket)
{
    char message[1024] = "";
    int result = job_receive(job, socket);
    job->peer = protocol_peer(socket);
    if (result == 0)
        result = identity_check(job->peer, &job->request.told, host->launcher, &job->change,
                                message, sizeof(message));
    if (result == -EMFILE)
        strcpy(message, NO_ROOM);
    if (result < 0 && result != -EPROTO)
        refuse(socket, result, message[0] ? message : strerror(-result));
    return result;
}

/* Receives a shim's job. If the launcher told how many ranks it starts on this node, the host
 * starts them together: ranks that spin until the last one has come would take the CPUs that the
 * last ones need to start. A malformed job closes the connection. */
static void serve_new(struct host *host, int socket)
{
    struct timeval patience = {REQUEST_TIMEOUT_S, 0};
    struct job *job = calloc(1, sizeof(*job)), **last = &host->held;
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (!job || receive(host, job, socket) < 0) {
        if (job)
            job_free(job);
        close(socket);
        host->seen++;
        return;
    }
    job->socket = socket;
    while (*last)
        last = &(*last)->next;
    *last = job;
    host->held_count++;
    if (host->seen + host->held_count >= host->expected)
        host_start_held(host, host->held_count == host->expected);
}

static void greet(int socket, const char *message)
{
    struct protocol_greeting greeting = {.header = protocol_header()};
    (void)!readlink("/proc/self/exe", greeting.file, sizeof(greeting.file) - 1);
    snprintf(greeting.message, sizeof(greeting.message), "%s", message);
    (void)protocol_send(socket, &greeting, sizeof(greeting));
}

void host_turn_away(int listener, const char *message)
{
    struct pollfd waiting = {listener, POLLIN, 0};
    while (poll(&waiting, 1, 0) > 0) {
        int socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (socket < 0)
            return;
        greet(socket, message);
        close(socket);
    }
}

/* Without this a shim that cannot be accepted would wait for ever, and poll would report it at
 * once, again and again. */
static void turn_away_for_lack_of_room(struct host *host)
{
    close(host->reserve);
    host_turn_away(host->listener, NO_ROOM);
    host->seen++;
    host_reserve(host);
}

void host_reserve(struct host *host)
{
    host->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void host_accept(struct host *host)
{
    int socket = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC);
    if (socket < 0 && (errno == EMFILE || errno == ENFILE))
        turn_away_for_lack_of_room(host);
    struct arrival *arrival = socket >= 0 ? calloc(1, sizeof(*arrival)) : NULL;
    if (!arrival || protocol_peer(socket) < 0) {
        if (socket >= 0)
            close(socket);
        free(arrival);
        return;
    }
    greet(socket, ""); /* if the shim is gone, reading tells */
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
