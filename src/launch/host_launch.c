/* src/launch/host_launch.c: the ranks that one launcher starts in a space.
 *
 * They start together or fail together. If one of them cannot start, the launch has failed: the
 * host refuses all others with the same message, which their shims print once (say_once_claim in
 * report.h). The launcher ends the ranks that run already, as it ends those of plain processes.
 * Where it does not, the host kills them two seconds later. */
#include "launch/host.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/proc.h"
#include "launch/capacity.h"
#include "space/registry.h"

enum {
    GRACE_MS = 2000,          /* a launcher has so long to end the ranks of a failed launch */
    FORGET_MS = 10000,        /* for ranks that come late, as long as the host waits for them */
    MAPPINGS_GRACE_MS = 5000, /* a space has so long to recover when no mappings are left */
};

/* ---- Members ---- */

static void fail(struct launch *launch, int error, const char *message)
{
    if (launch->error)
        return;
    launch->error = error;
    launch->failed_ms = host_now_ms();
    snprintf(launch->message, sizeof(launch->message), "%s", message);
}

/* System calls of the space that failed for lack of mappings. */
static uint32_t refused_calls(void)
{
    return atomic_load_explicit(&space_registry()->mappings_exhausted, memory_order_relaxed);
}

static struct launch *create(struct host *host, const struct protocol_request *head)
{
    struct launch *launch = calloc(1, sizeof(*launch));
    if (!launch)
        return NULL;
    launch->id = head->launch;
    launch->ranks = head->ntasks > 0 ? (unsigned)head->ntasks : 1;
    launch->token = say_once_create();
    launch->refused_before = host->space_error[0] ? 0 : refused_calls();
    launch->next = host->launches;
    host->launches = launch;
    int result =
        capacity_check(CAPACITY_HOST, launch->ranks, launch->message, sizeof(launch->message));
    if (result < 0) {
        launch->error = result;
        launch->failed_ms = host_now_ms();
    }
    return launch;
}

/* Frees launches without members. A failed one stays for shims that come late, for as long as they
 * come one after another, but not for the next job of a launcher that has several. */
static void free_unused(struct host *host)
{
    for (struct launch **at = &host->launches; *at;) {
        struct launch *launch = *at;
        if (launch->members || (launch->error && launch->joined < launch->ranks &&
                                host_now_ms() - launch->joined_ms < FORGET_MS)) {
            at = &launch->next;
            continue;
        }
        *at = launch->next;
        if (launch->token >= 0)
            close(launch->token);
        free(launch);
    }
}

struct launch *launch_join(struct host *host, const struct protocol_request *head)
{
    if (head->number < 0)
        return NULL;
    free_unused(host);
    struct launch *launch = host->launches;
    while (launch && launch->id != head->launch)
        launch = launch->next;
    if (!launch)
        launch = create(host, head);
    if (!launch)
        return NULL;
    launch->members++;
    launch->joined++;
    launch->joined_ms = host_now_ms();
    return launch;
}

void launch_leave(struct host *host, struct launch *launch)
{
    if (!launch)
        return;
    launch->members--;
    free_unused(host);
}

void launch_drop(struct host *host, struct request *request)
{
    struct launch *launch = request->launch;
    close(request->socket);
    request_free(request);
    launch_leave(host, launch);
}

int launch_acknowledge(struct request *request)
{
    struct launch *launch = request->launch;
    struct protocol_reply reply = {.kind = PROTOCOL_HELD};
    if (launch && !launch->error) {
        memcpy(reply.message, launch->message, sizeof(reply.message));
        launch->message[0] = 0;
    }
    return protocol_send_with_fd(request->socket, &reply, sizeof(reply),
                                 launch ? launch->token : -1);
}

void launch_mark_reported(struct launch *launch)
{
    if (launch && launch->token >= 0)
        say_once_done(launch->token, SAY_FAILURE);
}

/* ---- Failure ---- */

static void refuse_one(struct host *host, struct request *request, int error, const char *message)
{
    struct protocol_reply reply = {.kind = PROTOCOL_ANSWER, .error = error};
    snprintf(reply.message, sizeof(reply.message), "%s", message[0] ? message : strerror(-error));
    /* Ignore errors: the shim has exited. */
    (void)protocol_send(request->socket, &reply, sizeof(reply));
    launch_drop(host, request);
}

/* Moves the requests of a launch from one list to the front of another. Returns their number. */
static unsigned move_requests(struct request **from, const struct launch *launch,
                              struct request **to)
{
    unsigned count = 0;
    for (struct request **at = from; *at;) {
        struct request *request = *at;
        if (request->launch != launch) {
            at = &request->next;
            continue;
        }
        *at = request->next;
        request->next = *to;
        *to = request;
        count++;
    }
    return count;
}

void launch_refuse(struct host *host, struct request *request, int error, const char *message)
{
    struct launch *launch = request->launch;
    if (!launch) {
        refuse_one(host, request, error, message);
        return;
    }
    struct request *waiting = NULL;
    char text[sizeof(launch->message)];
    fail(launch, error, message[0] ? message : strerror(-error));
    memcpy(text, launch->message, sizeof(text));
    error = launch->error;
    unsigned held = move_requests(&host->waiting, launch, &waiting);
    host->waiting_count -= (int)held;
    host->ranks_seen += (int)held;
    (void)move_requests(&host->queue, launch, &waiting);
    refuse_one(host, request, error, text);
    while (waiting) {
        request = waiting;
        waiting = request->next;
        refuse_one(host, request, error, text);
    }
}

int launch_kill_is_pending(const struct host *host)
{
    for (const struct launch *launch = host->launches; launch; launch = launch->next)
        if (launch->error && launch->running)
            return 1;
    return 0;
}

void launch_kill_failed(struct host *host)
{
    if (!launch_kill_is_pending(host))
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

/* ---- Mappings that run out while ranks run ---- */

/* Sends a message to all shims of the launch: the launcher may end any of them before it has
 * printed it. */
static void send_notice(struct host *host, const struct launch *launch, const char *message)
{
    struct protocol_reply reply = {.kind = PROTOCOL_NOTICE};
    snprintf(reply.message, sizeof(reply.message), "%s", message);
    for (struct client *client = host->clients; client; client = client->next)
        if (client->launch == launch && client->socket >= 0)
            (void)protocol_send(client->socket, &reply, sizeof(reply));
}

/* The ended task has returned its own mappings, so some may be free now. Its peers wait for it, and
 * not every launcher ends them. */
void launch_report_shortage(struct host *host, struct launch *launch, int status)
{
    int is_bad = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    char text[sizeof(launch->message)] = "";
    if (!launch || !is_bad || launch->error || refused_calls() == launch->refused_before)
        return;
    (void)capacity_describe_mappings(launch->running, launch->ranks, text, sizeof(text));
    if (!launch->shortage_reported)
        send_notice(host, launch, text);
    launch->shortage_reported = 1;
    fail(launch, -ENOMEM, text);
}

static void check_mappings(struct host *host, struct launch *launch, int64_t now)
{
    char message[sizeof(launch->message)] = "";
    if (launch->error || !launch->running)
        return;
    int are_exhausted =
        capacity_describe_mappings(launch->running, launch->ranks, message, sizeof(message));
    if (refused_calls() != launch->refused_before) {
        if (!launch->shortage_reported)
            send_notice(host, launch, message);
        launch->shortage_reported = 1;
    }
    if (!are_exhausted) {
        launch->exhausted_ms = 0;
        return;
    }
    if (!launch->exhausted_ms)
        launch->exhausted_ms = now;
    if (now - launch->exhausted_ms < MAPPINGS_GRACE_MS)
        return;
    fail(launch, -ENOMEM, message);
    launch->failed_ms = launch->exhausted_ms; /* no second grace period */
}

void launch_check_mappings(struct host *host)
{
    enum { INTERVAL_MS = 500 };
    int64_t now = host_now_ms();
    if (now - host->mappings_counted_ms < INTERVAL_MS)
        return;
    host->mappings_counted_ms = now;
    for (struct launch *launch = host->launches; launch; launch = launch->next)
        check_mappings(host, launch, now);
}

/* ---- The exit status that Hydra (MPICH) reports for a job in which a rank fails ----
 *
 * When a rank ends without PMI_Finalize, Hydra's proxy sees the end of its PMI connection and kills
 * all ranks of the node. The job's status is the bitwise or of those that the proxy counts:
 *
 * - that of the failed rank; but if the proxy has reaped it before it sees the end of the
 *   connection, version 4.0 counts 1 instead, and later versions do not kill the others
 * - that of a rank that it reaps while some output is open, SIGKILL's 9; it looks for an ended rank
 *   at each event. Those that it reaps when all output is closed do not count. A killed process
 *   closes its output before it can be reaped, but a killed shim can be reaped at once, while its
 *   task still holds the output open
 *
 * Therefore the host traces the shims of the node when a rank has failed. The kernel lets the
 * parent reap a traced process only when the tracer has reaped it or detaches. A failed rank's shim
 * is let go when Hydra has killed another one, or after FAILED_TIMEOUT_MS: Hydra learns of the
 * crash of a program without MPI only by reaping its shim. Killed shims are let go CLOSING_MS after
 * all tasks of the launch have ended, in which Hydra sees the end of the output. On a busy machine
 * that is not enough: the proxy must also be asleep, for what it is to see has woken it. A shim
 * whose parent is not Hydra's proxy, but a script, needs nothing of this.
 *
 * When all tasks have ended by a signal that Hydra forwarded, the host traces all shims until each
 * has stopped at the beginning of its exit. Before that no shim can be reaped, and after it no shim
 * changes its status.
 *
 * A separate thread traces, because the kernel detaches what a thread traces when that thread ends,
 * whatever its state. */

/* TRACE_TIMEOUT_MS: Hydra kills at once, if at all. It does not kill ranks that have called
 * PMI_Finalize. LONGEST_MS: for a proxy that is stopped, and for killed tasks that do not end. */
enum {
    TRACE_TIMEOUT_MS = 5000,
    LONGEST_MS = 60000,
    TRACE_INTERVAL_MS = 5,
    FAILED_TIMEOUT_MS = 500,
    CLOSING_MS = 300,
};

struct traced_shim {
    _Atomic pid_t pid; /* the tracer sets it to 0 when the shim needs no attention any more */
    /* Its task has ended badly. By the polling thread, before the shim can know it. */
    _Atomic int has_failed;
    int fails_by_kill; /* that task was killed itself. Written before has_failed, read after it */
    int has_ended, was_killed; /* was_killed: by Hydra */
    uint64_t deadline;         /* until when it is held if it has failed and Hydra kills no other */
};

struct tracer {
    const struct launch *launch; /* NULL: until each shim has begun to exit */
    int proxy;                   /* Hydra's, the parent of all the shims; its PID */
    int has_killed;              /* Hydra has killed a shim */
    unsigned count;
    struct traced_shim shims[];
};

/* The polling thread's. In use while is_tracing, then freed by the next one. */
static struct tracer *tracer;
/* The launch for which the tracer waits, or NULL. The polling thread sets it before it starts the
 * tracer and clears it when all tasks have ended; the tracer clears it at its deadline. The tracer
 * only tests it: it orders nothing else. */
static _Atomic(const struct launch *) held;
/* Whether there is a tracer. Set by the polling thread, cleared by the tracer as its last act. */
static _Atomic int is_tracing;
/* Posted by the tracer when it traces, awaited by the polling thread. */
static sem_t tracing_begun;

/* A traced shim stops at each signal. It may also be stopped (SIGTSTP) and continued. */
static void pass_on_signal(pid_t shim)
{
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)shim, &info, WSTOPPED | WNOHANG | __WALL) != 0 || info.si_pid == 0)
        return;
    int number = info.si_status & 0xff, is_event = info.si_status >> 8 == PTRACE_EVENT_STOP;
    if (is_event && number != SIGTRAP)
        ptrace(PTRACE_LISTEN, shim, 0, 0); /* it stays stopped until SIGCONT */
    else
        ptrace(PTRACE_CONT, shim, 0, (long)(is_event ? 0 : number));
}

/* Whether the proxy runs or waits for a CPU, and thus may not have seen yet what has happened. */
static int proxy_is_busy(const struct tracer *own)
{
    struct proc_stat stat;
    return own->proxy && proc_read_stat(own->proxy, &stat) == 0 && stat.state != 'S' &&
           stat.state != 'Z';
}

/* Whether the parent must not reap the shim yet, which has ended. A shim that Hydra has killed has
 * not the status of its task, even if that has failed. */
static int must_stay(struct tracer *own, struct traced_shim *shim, const siginfo_t *info)
{
    if (!own->launch)
        return 0;
    int has_failed = atomic_load_explicit(&shim->has_failed, memory_order_acquire);
    shim->was_killed = info->si_code == CLD_KILLED && info->si_status == SIGKILL &&
                       !(has_failed && shim->fails_by_kill);
    own->has_killed |= shim->was_killed;
    if (!shim->has_ended)
        shim->deadline = futex_deadline(FAILED_TIMEOUT_MS);
    shim->has_ended = 1;
    if (shim->was_killed || !has_failed)
        return shim->was_killed;
    return !own->has_killed && (futex_now_ns() < shim->deadline || proxy_is_busy(own));
}

/* Returns whether the tracer must attend to the shim again. */
static int trace_shim(struct tracer *own, struct traced_shim *shim, pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    int options = WEXITED | WSTOPPED | WNOHANG | __WALL;
    if (waitid(P_PID, (id_t)pid, &info, options | WNOWAIT) != 0)
        return errno == EINTR;
    if (info.si_pid == 0)
        return 1;
    int has_ended =
        info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
    if (info.si_code == CLD_TRAPPED && info.si_status == (SIGTRAP | PTRACE_EVENT_EXIT << 8))
        return 0; /* stays stopped until the tracer ends */
    if (!has_ended)
        pass_on_signal(pid);
    if (!has_ended || must_stay(own, shim, &info))
        return 1;
    /* Now its parent can reap it. */
    (void)waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | __WALL);
    return 0;
}

/* Returns whether the shims must still be traced: while tasks run, and until those whose tasks have
 * failed have ended. */
static int trace_shims(struct tracer *own)
{
    int is_awaited =
        own->launch && atomic_load_explicit(&held, memory_order_relaxed) == own->launch;
    for (unsigned i = 0; i < own->count; i++) {
        struct traced_shim *shim = &own->shims[i];
        pid_t pid = atomic_load_explicit(&shim->pid, memory_order_relaxed);
        if (!pid)
            continue;
        if (!trace_shim(own, shim, pid))
            atomic_store_explicit(&shim->pid, 0, memory_order_relaxed);
        else
            is_awaited |= !own->launch || (!shim->was_killed && shim->has_failed);
    }
    return is_awaited;
}

/* Whether an ended shim is held. */
static int holds_some(const struct tracer *own)
{
    int holds = own->has_killed;
    for (unsigned i = 0; i < own->count; i++)
        holds |= own->shims[i].has_ended && own->shims[i].pid;
    return holds;
}

static void *trace(void *argument)
{
    static const struct timespec interval = {.tv_nsec = TRACE_INTERVAL_MS * 1000000},
                                 closing = {.tv_nsec = CLOSING_MS * 1000000};
    struct tracer *own = argument;
    long options = own->launch ? 0 : PTRACE_O_TRACEEXIT;
    for (unsigned i = 0; i < own->count; i++)
        if (ptrace(PTRACE_SEIZE, own->shims[i].pid, 0, options) != 0)
            own->shims[i].pid = 0;
    sem_post(&tracing_begun);
    uint64_t deadline = futex_deadline(TRACE_TIMEOUT_MS), last = futex_deadline(LONGEST_MS), now;
    while (trace_shims(own) && (now = futex_now_ns()) < last &&
           (now < deadline || own->has_killed || proxy_is_busy(own)))
        nanosleep(&interval, NULL);
    if (holds_some(own))
        nanosleep(&closing, NULL);
    while (holds_some(own) && proxy_is_busy(own) && futex_now_ns() < last)
        nanosleep(&interval, NULL);
    atomic_store_explicit(&held, NULL, memory_order_relaxed);
    atomic_store_explicit(&is_tracing, 0, memory_order_release);
    return NULL;
}

/* is_failed: some rank of the launch has failed; else each shim is traced until it exits. */
static int list_shims(const struct host *host, const struct launch *launch, int is_failed)
{
    free(tracer);
    tracer = calloc(1, sizeof(*tracer) + launch->running * sizeof(tracer->shims[0]));
    if (!tracer)
        return 0;
    tracer->launch = is_failed ? launch : NULL;
    for (const struct client *client = host->clients; client; client = client->next)
        if (client->launch == launch && client->socket >= 0 &&
            (!is_failed || client->hydra == PROTOCOL_HYDRA_PARENT) &&
            peer_confirm(client->socket, &client->peer) == 0)
            tracer->shims[tracer->count++].pid = client->peer.pid;
    struct proc_stat stat;
    if (is_failed && tracer->count && proc_read_stat(tracer->shims[0].pid, &stat) == 0)
        tracer->proxy = stat.parent;
    return 1;
}

static void start_tracer(const struct host *host, const struct launch *launch, int is_failed)
{
    pthread_t thread;
    if (atomic_load_explicit(&is_tracing, memory_order_acquire) ||
        !list_shims(host, launch, is_failed) || sem_init(&tracing_begun, 0, 0) != 0)
        return;
    atomic_store_explicit(&held, tracer->launch, memory_order_relaxed);
    atomic_store_explicit(&is_tracing, 1, memory_order_relaxed);
    if (pthread_create(&thread, NULL, trace, tracer) != 0) {
        atomic_store_explicit(&held, NULL, memory_order_relaxed);
        atomic_store_explicit(&is_tracing, 0, memory_order_relaxed);
        return;
    }
    pthread_detach(thread);
    while (sem_wait(&tracing_begun) != 0)
        ;
}

void hydra_status_hold(const struct host *host, const struct client *failed)
{
    if (!failed->launch || failed->hydra != PROTOCOL_HYDRA_PARENT)
        return;
    start_tracer(host, failed->launch, 1);
    if (!atomic_load_explicit(&is_tracing, memory_order_acquire) ||
        tracer->launch != failed->launch)
        return;
    for (unsigned i = 0; i < tracer->count; i++)
        if (atomic_load_explicit(&tracer->shims[i].pid, memory_order_relaxed) == failed->peer.pid) {
            int status = failed->status.status;
            tracer->shims[i].fails_by_kill = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            /* Release: pairs with must_stay, which then reads fails_by_kill. */
            atomic_store_explicit(&tracer->shims[i].has_failed, 1, memory_order_release);
        }
}

int hydra_status_is_held(void)
{
    return atomic_load_explicit(&is_tracing, memory_order_relaxed);
}

void hydra_status_hold_all(const struct host *host, const struct launch *launch)
{
    start_tracer(host, launch, 0);
}

void hydra_status_release(const struct launch *launch)
{
    const struct launch *expected = launch;
    atomic_compare_exchange_strong_explicit(&held, &expected, NULL, memory_order_relaxed,
                                            memory_order_relaxed);
}
