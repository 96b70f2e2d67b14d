/* src/launch/host.c: starts the tasks that shims ask for, and serves the shims until their tasks
 * have ended.
 *
 * One thread polls the sockets. Another thread waits for tasks to end, which a futex reports, and
 * writes each status to a pipe that the first one polls. After the first task has started, the host
 * loads no library and uses no name service: a debugger's breakpoint in shared code would kill it
 * (docs/programs.md). */
#include "launch/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/proc.h"
#include "launch/capacity.h"
#include "launch/launch.h"
#include "policy/policy.h"
#include "space/registry.h"

enum {
    LINGER_MS = 200,      /* a host without tasks waits so long for further requests, */
    EXPECT_MS = 10000,    /* and so long while the launcher's other ranks have not come */
    OTHER_RANKS_MS = 300, /* ranks wait so long for the launch's others after each arrival */
    ALONE_MS = 2000,      /* a rank that ran so long alone is told that the others did not come */
    REAP_MS = 1000,       /* between looks for tasks whose shims have ended */
};

int64_t host_now_ms(void)
{
    return (int64_t)(futex_now_ns() / 1000000);
}

/* ---- From a held request to its task ---- */

/* Invariant: a space has one group of numbered tasks at a time, with one barrier. In a space that
 * the user named, several launchers may start ranks, and only one launcher's ranks have numbers:
 * the barrier would count the others, too. A rank gets no number if a rank of another launch has
 * one, or if an earlier rank of its own launch got none, even if the group has ended meanwhile. */
static int must_be_unnumbered(const struct host *host, const struct launch *launch)
{
    for (const struct client *client = host->clients; client; client = client->next)
        if (client->has_launcher_number && client->number_is_withheld == (client->launch == launch))
            return 1;
    return 0;
}

static void init_client(const struct host *host, struct request *request, struct client *client)
{
    struct protocol_request *head = &request->head;
    client->launch = request->launch;
    client->has_launcher_number = head->number >= 0;
    client->is_first = head->number == 0;
    client->hydra = head->hydra;
    client->peer = request->peer;
    client->number_is_withheld =
        client->has_launcher_number && must_be_unnumbered(host, request->launch);
    if (client->number_is_withheld) {
        head->number = head->ntasks = -1;
        head->flags &= ~ONESPACE_SPAWN_TOGETHER;
    }
}

/* The task runs: tells the shim its id and pid. */
static void add_client(struct host *host, const struct request *request, struct client *client,
                       int id, struct protocol_reply *reply)
{
    struct proc_stat stat;
    reply->status.id = client->task = id;
    reply->status.pid = client->pid = onespace_pid(id);
    client->start_ticks = proc_read_stat(client->pid, &stat) == 0 ? stat.start_ticks : 0;
    snprintf(client->program, sizeof(client->program), "%s", request->argv[0]);
    if (client->number_is_withheld && client->is_first) /* once per launch */
        snprintf(reply->message, sizeof(reply->message),
                 "ranks of another launcher are in this space: those of this one have no number "
                 "there and no onespace_barrier; use another --space, or start all with one "
                 "launcher");
    oversubscription_add(request->change.wants.cpus, request->change.wants.cpus_size);
    sem_post(&host->spawned);
    if (protocol_send(request->socket, reply, sizeof(*reply)) < 0)
        (void)!onespace_kill(id, SIGKILL);
    if (client->launch)
        client->launch->running++; /* and stays a member */
    client->socket = request->socket;
    client->started_ms = host_now_ms();
    client->next = host->clients;
    host->clients = client;
}

/* The task could not be started. -EPIPE: the shim itself is gone, which its launcher handles; it is
 * not a failure to start. */
static void refuse(struct host *host, struct request *request, int error, char *message,
                   size_t size)
{
    struct launch *launch = request->launch;
    if (error == -EPIPE || error == -ECONNRESET) {
        launch_drop(host, request);
        return;
    }
    if (error == -EOWNERDEAD)
        snprintf(message, size, "the reaper of the space was killed, and the tasks with it");
    if (launch)
        capacity_explain_error(error, launch->running, launch->ranks, message, size);
    launch_refuse(host, request, error, message);
}

static void add_topology(struct request *request)
{
    const char *variables[TOPOLOGY_VARIABLES];
    topology_variables(request->envp, variables);
    for (uint32_t i = 0; i < TOPOLOGY_VARIABLES && variables[i]; i++)
        request->envp[request->head.envc + i] = (char *)variables[i];
}

static void start_task(struct host *host, struct request *request)
{
    struct protocol_reply reply = {.kind = PROTOCOL_ANSWER};
    struct client *client = calloc(1, sizeof(*client));
    if (client)
        init_client(host, request, client);
    add_topology(request);
    int id = client ? request_spawn(request, reply.message, sizeof(reply.message)) : -ENOMEM;
    if (id > 0) {
        add_client(host, request, client, id, &reply);
        request_free(request);
    } else {
        free(client);
        refuse(host, request, id, reply.message, sizeof(reply.message));
    }
}

void host_queue_held(struct host *host, int complete)
{
    struct request **last = &host->queue;
    for (struct request *request = host->waiting; complete && request; request = request->next)
        request->head.flags |= ONESPACE_SPAWN_TOGETHER;
    while (*last)
        last = &(*last)->next;
    *last = host->waiting;
    host->ranks_seen += host->waiting_count;
    host->waiting = NULL;
    host->waiting_count = 0;
}

/* Asks two shims at a time for their descriptors, so that the next one answers while a task is made
 * and few descriptors are in flight. If those two are late, perhaps stopped, it asks the next ones.
 */
static void ask_next_shims(struct host *host, int is_late)
{
    enum { ASKED_AT_ONCE = 2 };
    int asked = 0;
    for (struct request *request = host->queue; request; request = request->next) {
        asked += request->fds_requested && !is_late;
        if (request->fds_requested || asked >= ASKED_AT_ONCE)
            continue;
        request->fds_requested = 1;
        asked++;
        (void)request_ask_fds(request); /* ignore errors: a later read reports EOF */
    }
}

/* Whether the shim has answered, or is gone. One that has nothing to send does not answer. */
static int has_answered(const struct request *request)
{
    struct pollfd answer = {request->socket, POLLIN, 0};
    if (!request->fds_requested)
        return 0;
    return (!request->head.has_directory && request->head.fd_count == 0) || poll(&answer, 1, 0) > 0;
}

/* Removes the first request of the queue whose shim has answered. */
static struct request *take_answered(struct host *host)
{
    for (struct request **at = &host->queue; *at; at = &(*at)->next) {
        struct request *request = *at;
        if (has_answered(request)) {
            *at = request->next;
            return request;
        }
    }
    return NULL;
}

/* Asks shims in the queue for their descriptors, and starts the tasks of those that have answered.
 * is_late: none has answered for a while. */
static void serve_queue(struct host *host, int is_late)
{
    struct request *request;
    ask_next_shims(host, is_late);
    while ((request = take_answered(host))) {
        start_task(host, request); /* or refuses it, and others in the queue */
        ask_next_shims(host, 0);
    }
}

/* ---- While the task runs ---- */

static void forward_signal(const struct client *client, const struct protocol_signal *signal)
{
    union sigval value = {.sival_ptr = (void *)(uintptr_t)signal->value};
    struct proc_stat stat;
    if (!signal->is_queued) {
        /* as terminals and launchers do */
        if (peer_signal_group(client->pid, client->start_ticks, signal->number) != 0)
            (void)!onespace_kill(client->task, signal->number);
    } else if (proc_read_stat(client->pid, &stat) == 0 && stat.start_ticks == client->start_ticks) {
        sigqueue(client->pid, signal->number, value);
    }
}

/* Reads a shim's socket: a signal to forward, or the end of the shim. Without its shim the task is
 * killed, and so is the rest of its process group. */
static void serve_client(struct client *client)
{
    struct protocol_signal signal;
    ssize_t got = recv(client->socket, &signal, sizeof(signal), MSG_DONTWAIT);
    if (got == (ssize_t)sizeof(signal)) {
        client->forwarded |= UINT64_C(1) << (((unsigned)signal.number - 1) % 64);
        forward_signal(client, &signal);
    } else if (got >= 0 || (errno != EAGAIN && errno != EINTR)) { /* a shim sends whole records */
        close(client->socket);
        client->socket = -1;
        (void)peer_signal_group(client->pid, client->start_ticks, SIGKILL);
        (void)!onespace_kill(client->task, SIGKILL);
    }
}

/* ---- When the task has ended ---- */

/* The space had only this rank. Reported when its task has ended: only then is it certain, unless
 * it ended before others could come. */
static void warn_if_alone(const struct host *host, const struct client *client,
                          struct protocol_reply *reply)
{
    if (host->ranks_seen == 1 && host->ranks_expected > 1 &&
        host_now_ms() - client->started_ms >= ALONE_MS)
        snprintf(reply->message, sizeof(reply->message),
                 "the launcher started %d ranks on this node, but no other one came to this space: "
                 "start all of them with the same `onespace run`; --verbose names the space",
                 host->ranks_expected);
}

/* Adds to the job's total, which the shim of its last task gets. */
static void add_to_total(struct host *host, struct protocol_reply *reply)
{
    report_add(&host->total, &reply->status);
    if (host->clients->next || host->waiting || host->queue)
        return;
    reply->total = host->total;
    host->total = (struct report_total){0};
}

static void send_end(struct host *host, struct client *client, struct protocol_reply *reply)
{
    int status = reply->status.status;
    warn_if_alone(host, client, reply);
    if (!reply->message[0])
        report_departure(client->task, client->program, reply->message, sizeof(reply->message));
    launch_report_shortage(host, client->launch, status);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        hydra_status_hold(host, client);
    protocol_send(client->socket, reply, sizeof(*reply));
    close(client->socket);
}

/* Tells the shim that its task has ended. */
static void remove_client(struct host *host, struct client **at)
{
    struct client *client = *at;
    struct launch *launch = client->launch;
    struct protocol_reply reply = {.kind = PROTOCOL_ENDED, .status = client->status};
    add_to_total(host, &reply);
    if (client->socket >= 0)
        send_end(host, client, &reply);
    *at = client->next;
    free(client);
    if (!launch)
        return;
    launch->ended--;
    if (--launch->running == 0)
        hydra_status_release(launch);
    launch_leave(host, launch);
}

static void remove_ended_clients(struct host *host, const struct launch *launch)
{
    if (launch && launch->ended > 1 && launch->ended == launch->running)
        hydra_status_hold_all(host, launch);
    for (struct client **at = &host->clients; *at;)
        if ((*at)->has_ended && (*at)->launch == launch)
            remove_client(host, at); /* the last one frees the launch */
        else
            at = &(*at)->next;
}

/* Hydra forwards a signal to all ranks, and kills the others when the first one is dead. Processes
 * have the status of the forwarded signal nevertheless, because the kernel decides it when the
 * signal is sent. A shim blocks the signal and would have the status of SIGKILL. So after such a
 * signal no shim of the launch exits before all can (hydra_status_hold_all). */
static int must_await_others(const struct client *client)
{
    const struct launch *launch = client->launch;
    int status = client->status.status;
    if (!launch || client->hydra == PROTOCOL_HYDRA_NONE || launch->ended == launch->running)
        return 0;
    return launch->ended > 1 ||
           (WIFSIGNALED(status) && (client->forwarded >> (WTERMSIG(status) - 1) & 1));
}

/* Releases shims that have waited long enough for tasks of their launch that did not end. */
static void remove_clients_that_waited(struct host *host)
{
    enum { AWAIT_OTHERS_MS = 5000 };
    const struct launch *launch = host->launches;
    while (launch && (!launch->ended || host_now_ms() - launch->ended_ms < AWAIT_OTHERS_MS))
        launch = launch->next;
    if (launch)
        remove_ended_clients(host, launch);
}

static int some_client_waits(const struct host *host)
{
    for (const struct client *client = host->clients; client; client = client->next)
        if (client->has_ended)
            return 1;
    return 0;
}

/* Reads a status from the waiting thread. */
static void serve_status(struct host *host)
{
    struct onespace_status status;
    if (read(host->status_pipe[0], &status, sizeof(status)) != (ssize_t)sizeof(status))
        return;
    if (status.id == 0)
        launch_check_mappings(host);
    struct client *client = host->clients;
    while (client && client->task != status.id)
        client = client->next;
    if (!client)
        return;
    oversubscription_remove();
    client->has_ended = 1;
    client->status = status;
    if (client->launch && client->launch->ended++ == 0)
        client->launch->ended_ms = host_now_ms();
    if (!must_await_others(client))
        remove_ended_clients(host, client->launch);
}

/* ---- The thread that waits for tasks ---- */

static void write_status(const struct host *host, const struct onespace_status *status)
{
    while (write(host->status_pipe[1], status, sizeof(*status)) < 0 && errno == EINTR)
        ;
}

/* Reports that mappings have run out, for as long as it takes to see whether the space recovers:
 * tasks that wait for one another may make no more such system calls. */
static void report_exhausted_mappings(const struct host *host)
{
    enum { REPORT_MS = 10000 };
    static const struct onespace_status none;
    static uint32_t known; /* of this one thread */
    static int64_t until;
    uint32_t refused =
        atomic_load_explicit(&space_registry()->mappings_exhausted, memory_order_relaxed);
    if (refused != known)
        until = host_now_ms() + REPORT_MS;
    known = refused;
    if (host_now_ms() < until)
        write_status(host, &none);
}

static void *wait_for_tasks(void *argument)
{
    enum { WAIT_MS = 1000 }; /* as often as onespace_wait wakes up itself */
    struct host *host = argument;
    for (;;) {
        struct onespace_status status;
        while (sem_wait(&host->spawned) != 0)
            ;
        int id;
        while ((id = onespace_wait(ONESPACE_ANY, &status, WAIT_MS)) == -ETIMEDOUT)
            report_exhausted_mappings(host);
        if (id < 0) { /* the reaper was killed, and all tasks with it: end, so that shims notice */
            unlink(host->socket_path);
            _exit(EXIT_FAILURE);
        }
        write_status(host, &status);
    }
    return NULL;
}

/* ---- The thread that polls ---- */

static unsigned count_polled(const struct host *host)
{
    unsigned count = 2 + (unsigned)host->arrival_count;
    for (const struct client *client = host->clients; client; client = client->next)
        count += client->socket >= 0;
    for (const struct request *request = host->queue; request; request = request->next)
        count++;
    return count;
}

static unsigned fill_polled(struct host *host, struct pollfd *polled)
{
    unsigned at = 2;
    int accepts = host->arrival_count < HOST_ARRIVALS_MAX;
    polled[0] = (struct pollfd){accepts ? host->listener : -1, POLLIN, 0};
    polled[1] = (struct pollfd){host->status_pipe[0], POLLIN, 0};
    for (struct client *client = host->clients; client; client = client->next)
        if (client->socket >= 0)
            polled[at++] = (struct pollfd){client->socket, POLLIN, 0};
    for (struct request *request = host->arrivals; request; request = request->next)
        polled[at++] = (struct pollfd){request->socket, POLLIN, 0};
    for (struct request *request = host->queue; request; request = request->next)
        polled[at++] = (struct pollfd){request->fds_requested ? request->socket : -1, POLLIN, 0};
    return at;
}

/* Milliseconds until the ranks that others wait for are late: OTHER_RANKS_MS after the last event
 * of one that arrives. Else idle_timeout_ms. */
static int round_timeout(struct host *host, int idle_timeout_ms)
{
    int64_t now = host_now_ms();
    if (!host->waiting && !host->queue && !launch_kill_is_pending(host) &&
        !some_client_waits(host)) {
        host->others_late_ms = 0;
        return idle_timeout_ms;
    }
    if (!host->others_late_ms)
        host->others_late_ms = now + OTHER_RANKS_MS;
    return host->others_late_ms > now ? (int)(host->others_late_ms - now) : 0;
}

/* Returns 0 when the timeout passed. */
static int serve_round(struct host *host, int idle_timeout_ms)
{
    struct pollfd *polled = calloc(count_polled(host), sizeof(*polled));
    if (!polled)
        return 1;
    unsigned count = fill_polled(host, polled), at = 2;
    int timeout = round_timeout(host, idle_timeout_ms), limit = host_arrival_timeout(host);
    if (host->clients && (limit < 0 || limit > REAP_MS)) /* orphans may end at any time */
        limit = REAP_MS;
    int is_shortened = limit >= 0 && (timeout < 0 || limit < timeout);
    int ready = poll(polled, count, is_shortened ? limit : timeout);
    for (struct client *client = host->clients; ready > 0 && client; client = client->next)
        if (client->socket >= 0 && polled[at++].revents)
            serve_client(client);
    int arrives = ready > 0 && polled[0].revents;
    for (; ready > 0 && at < count; at++)
        arrives |= polled[at].revents != 0;
    /* The other ranks are late or have joined a different space. Signals and statuses of running
     * ranks do not count as events, because there may always be more of them. */
    int is_late = !arrives && (host->others_late_ms ? host_now_ms() >= host->others_late_ms
                                                    : ready == 0 && !is_shortened);
    if (arrives || is_late)
        host->others_late_ms = 0;
    if (ready > 0 && polled[1].revents)
        serve_status(host);
    remove_clients_that_waited(host);
    host_serve_arrivals(host);
    if (ready > 0 && polled[0].revents)
        host_accept(host);
    if (is_late)
        host_queue_held(host, 0);
    serve_queue(host, is_late);
    launch_kill_failed(host);
    free(polled);
    /* Reap orphans of tasks, adopted as subreaper, but not the shims that host_launch.c traces. */
    while (waitpid(-1, NULL, WNOHANG | __WNOTHREAD) > 0)
        ;
    return !is_late;
}

/* Stops listening unless a shim waits to be accepted. New shims wait for the directory's lock and
 * then start another host. */
static int stop_listening(struct host *host, const char *directory)
{
    int lock = runtime_dir_lock(directory);
    struct pollfd listener = {host->listener, POLLIN, 0};
    if (poll(&listener, 1, 0) > 0) {
        close(lock);
        return 0;
    }
    if (lock != -ESTALE && lock != -EPERM) /* the directory is still this user's */
        unlink(host->socket_path);
    close(host->listener);
    if (lock >= 0) {
        runtime_dir_remove_dead_sockets(directory);
        close(lock);
    }
    return 1;
}

/* 0 or -errno. host->space_error says so if the machine's policy forbids it. */
static int make_space(struct host *host)
{
    pthread_t waiter;
    struct policy policy;
    int forbidden = policy_admit(&policy, host->space_error, sizeof(host->space_error));
    if (forbidden < 0)
        return forbidden;
    if (host->ranks_expected != 1)
        topology_server_start();
    int self = shm_server_start(host->ranks_expected > 0 ? (unsigned)host->ranks_expected : 1);
    if (self == 0)
        self = onespace_init();
    if (self < 0)
        return self;
    shm_server_publish();
    if (pipe2(host->status_pipe, O_CLOEXEC) != 0 || sem_init(&host->spawned, 0, 0) != 0)
        return -errno;
    host_reserve_fd(host);
    return -pthread_create(&waiter, NULL, wait_for_tasks, host);
}

int host_serve(int listener, const char *directory, const char *name, int expected, int launcher)
{
    struct host host = {.listener = listener,
                        .spare_fd = -1,
                        .status_pipe = {-1, -1},
                        .ranks_expected = expected,
                        .requested_ms = host_now_ms(),
                        .launcher = launcher};
    snprintf(host.socket_path, sizeof(host.socket_path), "%s/%s", directory, name);
    prctl(PR_SET_NAME, "onespace-host");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    raise_descriptor_limit();
    /* The first shim's, which the reaper and other shims' tasks would inherit. */
    syscall(SYS_set_mempolicy, 0, NULL, 0);
    int failed = make_space(&host);
    if (failed < 0) { /* stays, to refuse all ranks of the launcher with one message */
        if (!host.space_error[0])
            snprintf(host.space_error, sizeof(host.space_error),
                     "cannot make a space: %s (see `onespace doctor`)", strerror(-failed));
        fprintf(stderr, "onespace host: %s\n", host.space_error);
    } else {
        snprintf(space_registry()->name, sizeof(space_registry()->name), "%s", name); /* for ps */
    }
    for (;;) {
        int idle = !host.clients && !host.waiting && !host.queue && !host.arrivals;
        int launcher_lives = launcher == 0 || kill(launcher, 0) == 0 || errno != ESRCH;
        int expects_ranks =
            (host.ranks_seen == 0 || host.ranks_seen < host.ranks_expected) && launcher_lives;
        int busy = serve_round(&host, idle ? LINGER_MS : -1);
        if (!idle || busy || hydra_status_is_held() ||
            (expects_ranks && host_now_ms() - host.requested_ms < EXPECT_MS))
            continue;
        if (stop_listening(&host, directory))
            return EXIT_SUCCESS;
    }
}
