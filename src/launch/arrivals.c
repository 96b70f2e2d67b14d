/* src/launch/arrivals.c: from a shim's connection to its request, which the host then holds until
 * all ranks of the launch have arrived. */
#include "launch/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"

/* From the connection to the end of the request. A shim that was stopped for longer connects again.
 */
enum { REQUEST_TIMEOUT_MS = 10000 };

#define NO_DESCRIPTORS                                                                             \
    "the host of the space has no descriptors left: raise the hard limit (ulimit -Hn) where the "  \
    "space is started"

/* ---- A request that has arrived ---- */

/* Copies a message of the shim, which other shims print on their terminals. */
static void copy_without_controls(const char *text, char *message, size_t size)
{
    snprintf(message, size, "%s", text);
    for (char *at = message; *at; at++)
        if (text_is_control(*at))
            *at = '?';
}

/* 0, or an error with a message. */
static int check_request(const struct host *host, struct request *request, char *message,
                         size_t size)
{
    if (host->space_error[0]) {
        snprintf(message, size, "%s", host->space_error);
        return -EAGAIN;
    }
    if (request->head.absence == PROTOCOL_LOST) { /* its shim has said why */
        launch_mark_reported(request->launch);
        return -EOWNERDEAD;
    }
    if (request->head.absence != PROTOCOL_PRESENT) {
        copy_without_controls(request->argv[0], message, size);
        return -ECONNREFUSED;
    }
    if (request->launch && request->launch->error)
        return request->launch->error; /* launch_refuse has its message */
    return identity_check(request->socket, &request->peer, &request->head.self_report,
                          host->launcher, &request->change, message, size);
}

static void join_launch(struct host *host, struct request *request)
{
    host->requested_ms = host_now_ms();
    request->launch = launch_join(host, &request->head);
    (void)launch_acknowledge(request); /* ignore errors: a later read reports EOF */
}

static int has_gone(const struct request *request)
{
    struct pollfd end = {request->socket, POLLIN, 0};
    return poll(&end, 1, 0) > 0 && (end.revents & POLLHUP);
}

/* If the launcher said how many ranks it starts on this node, the host starts them together. Ranks
 * that spin until the last one has started would take the CPUs that the last ones need to start. */
static void admit_request(struct host *host, struct request *request)
{
    char message[1024] = "";
    struct request **last = &host->waiting;
    join_launch(host, request);
    int result = check_request(host, request, message, sizeof(message));
    if (result < 0 && request->head.absence == PROTOCOL_PRESENT && has_gone(request)) {
        host->ranks_seen++;
        launch_drop(host, request); /* its launcher handles that: it is no failure to start */
        return;
    }
    if (result < 0) {
        host->ranks_seen++;
        launch_refuse(host, request, result, result == -EMFILE ? NO_DESCRIPTORS : message);
        return;
    }
    while (*last)
        last = &(*last)->next;
    *last = request;
    host->waiting_count++;
    if (host->ranks_seen + host->waiting_count >= host->ranks_expected)
        host_queue_held(host, host->waiting_count == host->ranks_expected);
}

/* The peer sent no request, or only a part of one. A peer that sends nothing is not a rank:
 * ending hosts and failing shims connect to find out which sockets are dead
 * (runtime_dir_remove_dead_sockets). */
static void drop(struct host *host, struct request *request)
{
    host->ranks_seen += request->received > 0;
    close(request->socket);
    request_free(request);
}

/* Never blocks: a shim that is stopped, or sends byte by byte, must not delay the others. */
void host_serve_arrivals(struct host *host)
{
    int64_t now = host_now_ms();
    for (struct request **at = &host->arrivals; *at;) {
        struct request *request = *at;
        int result = request_receive(request, request->socket);
        if (result == 0 && now < request->deadline_ms) {
            at = &request->next;
            continue;
        }
        *at = request->next;
        request->next = NULL;
        host->arrival_count--;
        if (result > 0)
            admit_request(host, request);
        else
            drop(host, request);
    }
}

int host_arrival_timeout(const struct host *host)
{
    int64_t first = INT64_MAX, now = host_now_ms();
    for (const struct request *request = host->arrivals; request; request = request->next)
        if (request->deadline_ms < first)
            first = request->deadline_ms;
    return first == INT64_MAX ? -1 : first <= now ? 0 : (int)(first - now);
}

/* ---- Connections ---- */

/* Makes an empty request and greets the shim. NULL, with the connection closed: the peer is another
 * user's, or out of memory. */
static struct request *begin_request(int socket)
{
    struct peer peer;
    struct request *request =
        peer_identify(socket, &peer) == 0 ? calloc(1, sizeof(*request)) : NULL;
    if (!request) {
        close(socket);
        return NULL;
    }
    request->socket = socket;
    request->directory = -1;
    request->peer = peer;
    request->deadline_ms = host_now_ms() + REQUEST_TIMEOUT_MS;
    struct protocol_greeting greeting = {.header = protocol_header()};
    identity_report_self(&greeting.self_report);
    (void)!readlink("/proc/self/exe", greeting.file, sizeof(greeting.file) - 1);
    (void)protocol_send(socket, &greeting, sizeof(greeting)); /* a later read reports EOF */
    return request;
}

void host_reserve_fd(struct host *host)
{
    host->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* The host has no descriptor for another connection. It accepts one in place of the spare
 * descriptor, waits for the request and refuses it, so that the launch fails with this reason.
 * Otherwise the shim would wait for ever, and poll would report its connection again and again. */
static void refuse_without_descriptors(struct host *host)
{
    enum { REFUSAL_TIMEOUT_MS = 2000 };
    close(host->spare_fd);
    int socket = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC), result = 0;
    struct request *request = socket >= 0 ? begin_request(socket) : NULL;
    int64_t deadline = host_now_ms() + REFUSAL_TIMEOUT_MS, now;
    while (request && (result = request_receive(request, socket)) == 0 &&
           (now = host_now_ms()) < deadline) {
        struct pollfd data = {socket, POLLIN, 0};
        (void)poll(&data, 1, (int)(deadline - now));
    }
    if (result > 0) {
        host->ranks_seen++;
        join_launch(host, request);
        launch_refuse(host, request, -EMFILE, NO_DESCRIPTORS);
    } else if (request) {
        drop(host, request);
    }
    host_reserve_fd(host);
}

void host_accept(struct host *host)
{
    int socket = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC);
    if (socket < 0 && (errno == EMFILE || errno == ENFILE)) {
        refuse_without_descriptors(host);
        return;
    }
    struct request *request = socket >= 0 ? begin_request(socket) : NULL;
    if (!request)
        return;
    request->next = host->arrivals;
    host->arrivals = request;
    host->arrival_count++;
}
