/* src/host/host.c: see host.h.
 *
 * One thread polls the sockets; another waits for tasks, since their ends are told by futex, and
 * passes each status on through a pipe. After the first task the host opens no library and asks no
 * name service: a debugger's breakpoint in shared code would kill it (docs/programs.md). */
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/job.h"
#include "host/protocol.h"
#include "host/runtime_dir.h"
#include "host/time_slices.h"
#include "onespace.h"
#include "space/registry.h"

enum {
    LINGER_MS = 200,
    EXPECT_MS = 10000,
    HOLD_MS = 300,
    PARTIAL_MS = 20,
    REQUEST_TIMEOUT_S = 2,
    ALONE_S = 2
};

struct client {
    int socket; /* -1: the shim is gone */
    int task;   /* id, 0: none */
    int pid;
    int takes_turns;
    int is_numbered, is_first, is_apart; /* apart: it should have a number and has none */
    uint64_t launch;
    time_t started; /* seconds of CLOCK_MONOTONIC */
    struct client *next;
};

/* A shim that has connected but not sent the head of its request yet. */
struct arrival {
    int socket;
    int is_partial; /* some of it is there: poll would return at once, again and again */
    struct arrival *next;
};

struct host {
    char socket_path[128];
    int listener, ends[2]; /* the pipe that the waiting thread writes statuses to */
    struct client *clients;
    struct arrival *arrivals;
    struct job *held; /* received, not started yet */
    int held_count;
    sem_t spawned;
    int seen;                  /* tasks started so far */
    int expected;              /* tasks that the launcher starts on this node, or -1 */
    struct report_total total; /* of the tasks that ended since there were none */
};

static void *wait_for_tasks(void *argument)
{
    struct host *host = argument;
    for (;;) {
        struct onespace_status status;
        while (sem_wait(&host->spawned) != 0)
            ;
        int id;
        while ((id = onespace_wait(ONESPACE_ANY, &status, -1)) == -ETIMEDOUT)
            ;
        if (id < 0) { /* the keeper was killed, and all tasks with it: the shims shall know */
            unlink(host->socket_path);
            _exit(EXIT_FAILURE);
        }
        while (write(host->ends[1], &status, sizeof(status)) < 0 && errno == EINTR)
            ;
    }
    return NULL;
}

/* A space has one group of numbered tasks at a time, with one barrier. Another launcher's ranks (in
 * a space of a name given by the user) would take numbers of that group and be waited for in their
 * stead; so they get none, all of them, also when the group ends while they are started. */
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

/* Once per launch is enough: to its first rank. */
static void warn_of_others(const struct client *client, struct protocol_reply *reply)
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

/* Said at the end, when it is certain, and not of tasks that were gone before others could come. */
static void warn_of_solitude(const struct host *host, const struct client *client,
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
    host->seen++;
    if (id > 0) {
        reply.status.id = client->task = id;
        reply.status.pid = client->pid = onespace_pid(id);
        warn_of_others(client, &reply);
        client->takes_turns = !job->request.long_turns;
        if (client->takes_turns)
            turns_add(job->request.cpus, job->request.cpus_size);
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

static void start_held(struct host *host, int complete)
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

/* Takes one shim's job on. When the launcher said how many ranks it starts here, they are started
 * together: ranks that spin until the last one has come would take the processors that the last
 * ones need to start. A malformed job closes the connection. */
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
        start_held(host, host->held_count == host->expected);
}

static void note_arrival(struct host *host)
{
    int socket = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC);
    struct arrival *arrival = socket >= 0 ? calloc(1, sizeof(*arrival)) : NULL;
    if (!arrival || !protocol_peer_is_mine(socket)) {
        if (socket >= 0)
            close(socket);
        free(arrival);
        return;
    }
    static const char greeting = PROTOCOL_GREETING;
    (void)protocol_send(socket, &greeting,
                        sizeof(greeting)); /* a gone shim shows when it is read */
    *arrival = (struct arrival){socket, 0, host->arrivals};
    host->arrivals = arrival;
}

/* Whether the head of a request is there, or the shim is gone: a stopped shim must not hold up the
 * others. */
static int has_request(struct arrival *arrival)
{
    struct protocol_request request;
    ssize_t size = recv(arrival->socket, &request, sizeof(request), MSG_PEEK | MSG_DONTWAIT);
    struct pollfd peer = {arrival->socket, POLLRDHUP, 0};
    if (poll(&peer, 1, 0) > 0)
        return 1; /* gone: reading it will tell */
    arrival->is_partial = size > 0;
    return size == 0 || size == (ssize_t)sizeof(request) ||
           (size < 0 && errno != EAGAIN && errno != EINTR);
}

static void serve_arrivals(struct host *host)
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

/* The shim is gone: its task and what that has in its process group must not stay behind. */
static void abandon(struct client *client)
{
    close(client->socket);
    client->socket = -1;
    if (client->pid > 0)
        kill(-client->pid, SIGKILL);
    (void)!onespace_kill(client->task, SIGKILL);
}

static void serve_client(struct client *client)
{
    int32_t number;
    ssize_t got = recv(client->socket, &number, sizeof(number), MSG_DONTWAIT);
    if (got == (ssize_t)sizeof(number)) {
        /* Terminals and launchers signal the whole process group of a rank. */
        if (kill(-client->pid, number) != 0)
            (void)!onespace_kill(client->task, number);
        return;
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        abandon(client);
}

static void add_up(struct host *host, struct protocol_reply *reply)
{
    report_add(&host->total, &reply->status);
    if (host->clients->next || host->held)
        return;
    report_close(&host->total);
    reply->total = host->total;
    host->total = (struct report_total){0};
}

static void pass_end_on(struct host *host)
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
            warn_of_solitude(host, client, &reply);
            protocol_send(client->socket, &reply, sizeof(reply));
            close(client->socket);
        }
        if (client->takes_turns)
            turns_remove();
        *at = client->next;
        free(client);
        return;
    }
}

static unsigned watch_all(struct host *host, struct pollfd *watched)
{
    unsigned at = 2;
    watched[0] = (struct pollfd){host->listener, POLLIN, 0};
    watched[1] = (struct pollfd){host->ends[0], POLLIN, 0};
    for (struct client *client = host->clients; client; client = client->next)
        watched[at++] = (struct pollfd){client->socket, POLLIN, 0}; /* -1 is passed over */
    for (struct arrival *arrival = host->arrivals; arrival; arrival = arrival->next)
        watched[at++] = (struct pollfd){arrival->is_partial ? -1 : arrival->socket, POLLIN, 0};
    return at;
}

static unsigned count_watched(const struct host *host)
{
    unsigned count = 2;
    for (const struct client *client = host->clients; client; client = client->next)
        count++;
    for (const struct arrival *arrival = host->arrivals; arrival; arrival = arrival->next)
        count++;
    return count;
}

static int has_partial(const struct host *host)
{
    for (const struct arrival *arrival = host->arrivals; arrival; arrival = arrival->next)
        if (arrival->is_partial)
            return 1;
    return 0;
}

/* One round of waiting: 0 when the timeout passed without an event. */
static int serve_round(struct host *host, int timeout_ms)
{
    struct pollfd *watched = calloc(count_watched(host), sizeof(*watched));
    if (!watched)
        return 1;
    unsigned count = watch_all(host, watched), at = 2;
    int partial = has_partial(host);
    int ready = poll(watched, count, partial ? PARTIAL_MS : host->held ? HOLD_MS : timeout_ms);
    for (struct client *client = host->clients; ready > 0 && client; client = client->next, at++)
        if (client->socket >= 0 && watched[at].revents)
            serve_client(client);
    if (ready > 0 && watched[1].revents)
        pass_end_on(host);
    serve_arrivals(host);
    if (ready > 0 && watched[0].revents)
        note_arrival(host);
    if (ready == 0 && !partial)
        start_held(host, 0); /* the others are late, or not ours */
    free(watched);
    while (waitpid(-1, NULL, WNOHANG) > 0) /* orphans of tasks, adopted as subreaper */
        ;
    return ready != 0;
}

/* Leaves only if no shim is at the door; new ones are kept out by the folder's lock. */
static int close_door(struct host *host, const char *folder)
{
    int lock = runtime_dir_lock(folder);
    struct pollfd door = {host->listener, POLLIN, 0};
    if (poll(&door, 1, 0) > 0) {
        close(lock);
        return 0;
    }
    unlink(host->socket_path);
    close(host->listener);
    host_sweep(folder);
    rmdir(folder); /* when no other host needs it */
    if (lock >= 0)
        close(lock);
    return 1;
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int host_serve(int listener, const char *folder, const char *name, int expected, int launcher)
{
    struct host host = {.listener = listener, .expected = expected};
    pthread_t waiter;
    snprintf(host.socket_path, sizeof(host.socket_path), "%s/%s", folder, name);
    prctl(PR_SET_NAME, "onespace-host");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    raise_descriptor_limit();
    int self = onespace_init();
    if (self < 0 || pipe2(host.ends, O_CLOEXEC) != 0 || sem_init(&host.spawned, 0, 0) != 0 ||
        pthread_create(&waiter, NULL, wait_for_tasks, &host) != 0) {
        fprintf(stderr, "onespace host: cannot make a space: %s\n",
                strerror(self < 0 ? -self : errno));
        close_door(&host, folder);
        return EXIT_FAILURE;
    }
    snprintf(space_registry()->name, sizeof(space_registry()->name), "%s", name); /* for ps */
    long started = now_ms();
    for (;;) {
        int idle = !host.clients && !host.held && !host.arrivals;
        int may_come = launcher == 0 || kill(launcher, 0) == 0 || errno != ESRCH;
        int early = (host.seen == 0 || host.seen < host.expected) && may_come;
        int busy = serve_round(&host, idle ? LINGER_MS : -1);
        if (!idle || busy || (early && now_ms() - started < EXPECT_MS))
            continue;
        if (close_door(&host, folder))
            return EXIT_SUCCESS;
    }
}
