/* src/host/accept.c: from a shim's connection to its job. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "host/protocol.h"
#include "host/serve.h"

enum { REQUEST_TIMEOUT_S = 2 };

/* Receives a shim's job. If the launcher told how many ranks it starts on this node, the host
 * starts them together: ranks that spin until the last one has come would take the CPUs that the
 * last ones need to start. A malformed job closes the connection. */
static void serve_new(struct host *host, int socket)
{
    struct timeval patience = {REQUEST_TIMEOUT_S, 0};
    struct job *job = calloc(1, sizeof(*job)), **last = &host->held;
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (!job || job_receive(job, socket) < 0) {
        if (job)
            job_free(job);
        close(socket);
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

void host_accept(struct host *host)
{
    int socket = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC);
    struct arrival *arrival = socket >= 0 ? calloc(1, sizeof(*arrival)) : NULL;
    if (!arrival || !protocol_peer_is_mine(socket)) {
        if (socket >= 0)
            close(socket);
        free(arrival);
        return;
    }
    struct protocol_greeting greeting = {.header = protocol_header()};
    (void)!readlink("/proc/self/exe", greeting.file, sizeof(greeting.file) - 1);
    (void)protocol_send(socket, &greeting,
                        sizeof(greeting)); /* if the shim is gone, reading tells */
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
