/* src/host/host.c: see host.h.
 *
 * One thread polls the sockets. Another waits for tasks to end, which a futex tells, and writes
 * each status to a pipe that the first one polls. After the first task the host loads no library
 * and uses no name service: a debugger's breakpoint in shared code would kill it
 * (docs/programs.md). */
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/runtime_dir.h"
#include "host/serve.h"
#include "onespace.h"
#include "space/registry.h"

enum { LINGER_MS = 200, EXPECT_MS = 10000, HOLD_MS = 300 };

static void pass_on(const struct host *host, const struct onespace_status *status)
{
    while (write(host->ends[1], status, sizeof(*status)) < 0 && errno == EINTR)
        ;
}

/* Passes on that mappings have run out, now and for as long as it takes to see whether the space
 * recovers: tasks that wait for one another may make no more such calls. */
static void watch_refused(const struct host *host)
{
    enum { WATCHED_MS = 5000 };
    static const struct onespace_status none;
    static uint32_t seen; /* of this one thread */
    static int64_t until;
    uint32_t refused =
        atomic_load_explicit(&space_registry()->mappings_exhausted, memory_order_relaxed);
    if (refused != seen)
        until = host_now_ms() + WATCHED_MS;
    seen = refused;
    if (host_now_ms() < until)
        pass_on(host, &none);
}

static void *wait_for_tasks(void *argument)
{
    enum { LOOK_MS = 1000 }; /* as often as onespace_wait wakes up itself */
    struct host *host = argument;
    for (;;) {
        struct onespace_status status;
        while (sem_wait(&host->spawned) != 0)
            ;
        int id;
        while ((id = onespace_wait(ONESPACE_ANY, &status, LOOK_MS)) == -ETIMEDOUT)
            watch_refused(host);
        if (id <
            0) { /* the reaper was killed, and all tasks with it: end, so that the shims notice */
            unlink(host->socket_path);
            _exit(EXIT_FAILURE);
        }
        pass_on(host, &status);
    }
    return NULL;
}

static unsigned watch_all(struct host *host, struct pollfd *watched)
{
    unsigned at = 2;
    int accepts = host->arrival_count < HOST_ARRIVALS_MAX;
    watched[0] = (struct pollfd){accepts ? host->listener : -1, POLLIN, 0};
    watched[1] = (struct pollfd){host->ends[0], POLLIN, 0};
    for (struct client *client = host->clients; client; client = client->next)
        watched[at++] = (struct pollfd){client->socket, POLLIN, 0}; /* poll skips -1 */
    for (struct job *job = host->arrivals; job; job = job->next)
        watched[at++] = (struct pollfd){job->socket, POLLIN, 0};
    for (struct job *job = host->queue; job; job = job->next)
        watched[at++] = (struct pollfd){job->is_asked ? job->socket : -1, POLLIN, 0};
    return at;
}

static unsigned count_watched(const struct host *host)
{
    unsigned count = 2 + (unsigned)host->arrival_count;
    for (const struct client *client = host->clients; client; client = client->next)
        count++;
    for (const struct job *job = host->queue; job; job = job->next)
        count++;
    return count;
}

/* One round of waiting: 0 when the timeout passed without an event. */
static int serve_round(struct host *host, int timeout_ms)
{
    struct pollfd *watched = calloc(count_watched(host), sizeof(*watched));
    if (!watched)
        return 1;
    unsigned count = watch_all(host, watched), at = 2;
    int waits = host->held || host->queue || launch_is_ending(host);
    int patience = waits ? HOLD_MS : timeout_ms, arrivals = host_arrival_timeout(host);
    int is_cut = arrivals >= 0 && (patience < 0 || arrivals < patience);
    int ready = poll(watched, count, is_cut ? arrivals : patience);
    int is_late = ready == 0 && !is_cut; /* the others are late, or join another space */
    for (struct client *client = host->clients; ready > 0 && client; client = client->next, at++)
        if (client->socket >= 0 && watched[at].revents)
            host_serve_client(client);
    if (ready > 0 && watched[1].revents)
        host_pass_end_on(host);
    host_serve_arrivals(host);
    if (ready > 0 && watched[0].revents)
        host_accept(host);
    if (is_late)
        host_start_held(host, 0);
    host_serve_queue(host, is_late);
    launch_end_failed(host);
    free(watched);
    /* Orphans of tasks, adopted as subreaper; not what hydra_status.c traces. */
    while (waitpid(-1, NULL, WNOHANG | __WNOTHREAD) > 0)
        ;
    return !is_late;
}

/* Stops listening unless a shim waits to be accepted; new ones wait for the directory's lock, and
 * then start a host of their own. */
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
        host_sweep(directory);
        close(lock);
    }
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

static int prepare(struct host *host)
{
    pthread_t waiter;
    int self = onespace_init();
    if (self < 0)
        return self;
    if (pipe2(host->ends, O_CLOEXEC) != 0 || sem_init(&host->spawned, 0, 0) != 0)
        return -errno;
    host_reserve(host);
    return -pthread_create(&waiter, NULL, wait_for_tasks, host);
}

int host_serve(int listener, const char *directory, const char *name, int expected, int launcher)
{
    struct host host = {.listener = listener,
                        .reserve = -1,
                        .ends = {-1, -1},
                        .expected = expected,
                        .launcher = launcher};
    snprintf(host.socket_path, sizeof(host.socket_path), "%s/%s", directory, name);
    prctl(PR_SET_NAME, "onespace-host");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    raise_descriptor_limit();
    int failed = prepare(&host);
    if (failed < 0) /* it stays, to refuse all ranks of the launcher with one message */
        snprintf(host.unusable, sizeof(host.unusable),
                 "cannot make a space: %s (see `onespace doctor`)", strerror(-failed));
    else
        snprintf(space_registry()->name, sizeof(space_registry()->name), "%s", name); /* for ps */
    if (failed < 0)
        fprintf(stderr, "onespace host: %s\n", host.unusable);
    int64_t started = host_now_ms();
    for (;;) {
        int idle = !host.clients && !host.held && !host.queue && !host.arrivals;
        int may_come = launcher == 0 || kill(launcher, 0) == 0 || errno != ESRCH;
        int early =
            (host.seen == 0 || host.seen < host.expected) && may_come && !launch_is_over(&host);
        int busy = serve_round(&host, idle ? LINGER_MS : -1);
        if (!idle || busy || (early && host_now_ms() - started < EXPECT_MS))
            continue;
        if (stop_listening(&host, directory))
            return EXIT_SUCCESS;
    }
}
