/* src/host/hydra_status.c: see hydra_status.h. A thread of its own traces: the kernel lets go of
 * what a thread traces when it ends, in whatever state that is. */
#include "host/hydra_status.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/futex.h"

/* KILL_TIMEOUT_MS: Hydra kills at once, if it does. Ranks that have called PMI_Finalize it leaves
 * alone. */
enum { KILL_TIMEOUT_MS = 5000, LOOK_MS = 5 };

struct tracer {
    unsigned count;
    pid_t shims[]; /* 0: not traced, or no longer */
};

/* The launch whose shims are traced, or NULL. Set by the thread that polls before it starts the
 * tracer; cleared by it when all tasks have ended, and by the tracer at its deadline. The tracer
 * only tests it: nothing else is ordered by it. */
static _Atomic(const struct launch *) held;
/* Whether there is a tracer: set by the thread that polls, cleared by the tracer as its last act.
 */
static _Atomic int is_tracing;
/* Posted by the tracer when it traces, awaited by the thread that polls; not in the tracer's
 * memory, which the tracer frees. */
static sem_t has_begun;

/* A shim may be stopped (SIGTSTP), or continued, while it is traced. */
static void pass_stop_on(pid_t shim)
{
    int status;
    if (waitpid(shim, &status, __WALL | WNOHANG) != shim || !WIFSTOPPED(status))
        return;
    int number = WSTOPSIG(status), is_event = status >> 16 == PTRACE_EVENT_STOP;
    if (is_event && number != SIGTRAP)
        ptrace(PTRACE_LISTEN, shim, 0, 0); /* it stays stopped until SIGCONT */
    else
        ptrace(PTRACE_CONT, shim, 0, (long)(is_event ? 0 : number));
}

/* Returns whether the shim is still to be traced. */
static int look_at(pid_t shim)
{
    siginfo_t info = {.si_pid = 0};
    int options = WEXITED | WSTOPPED | WNOHANG | __WALL;
    if (waitid(P_PID, (id_t)shim, &info, options | WNOWAIT) != 0)
        return errno == EINTR;
    if (info.si_pid == 0 || (info.si_code == CLD_KILLED && info.si_status == SIGKILL))
        return 1;
    if (info.si_code != CLD_EXITED && info.si_code != CLD_KILLED && info.si_code != CLD_DUMPED) {
        pass_stop_on(shim);
        return 1;
    }
    (void)waitid(P_PID, (id_t)shim, &info, WEXITED | WNOHANG | __WALL); /* its parent's now */
    return 0;
}

static void *trace(void *argument)
{
    static const struct timespec moment = {.tv_nsec = LOOK_MS * 1000000};
    struct tracer *tracer = argument;
    const struct launch *launch = atomic_load_explicit(&held, memory_order_relaxed);
    for (unsigned i = 0; i < tracer->count; i++)
        if (ptrace(PTRACE_SEIZE, tracer->shims[i], 0, 0) != 0)
            tracer->shims[i] = 0;
    unsigned count = tracer->count;
    sem_post(&has_begun);
    uint64_t end = futex_deadline(KILL_TIMEOUT_MS);
    while (atomic_load_explicit(&held, memory_order_relaxed) == launch && futex_now_ns() < end) {
        for (unsigned i = 0; i < count; i++)
            if (tracer->shims[i] && !look_at(tracer->shims[i]))
                tracer->shims[i] = 0;
        nanosleep(&moment, NULL);
    }
    free(tracer);
    atomic_store_explicit(&held, NULL, memory_order_relaxed);
    atomic_store_explicit(&is_tracing, 0, memory_order_release);
    return NULL;
}

static struct tracer *list_shims(const struct host *host, const struct client *failed)
{
    unsigned count = 0;
    for (const struct client *client = host->clients; client; client = client->next)
        count++;
    struct tracer *tracer = calloc(1, sizeof(*tracer) + count * sizeof(tracer->shims[0]));
    if (!tracer)
        return NULL;
    for (const struct client *client = host->clients; client; client = client->next)
        if (client != failed && client->launch == failed->launch && client->socket >= 0 &&
            peer_confirm(client->socket, &client->peer) == 0)
            tracer->shims[tracer->count++] = client->peer.pid;
    return tracer;
}

void hydra_status_hold(const struct host *host, const struct client *failed)
{
    pthread_t thread;
    if (!failed->is_hydra || !failed->launch || failed->launch->running < 2 ||
        atomic_load_explicit(&is_tracing, memory_order_acquire))
        return;
    struct tracer *tracer = list_shims(host, failed);
    if (!tracer || sem_init(&has_begun, 0, 0) != 0) {
        free(tracer);
        return;
    }
    atomic_store_explicit(&held, failed->launch, memory_order_relaxed);
    atomic_store_explicit(&is_tracing, 1, memory_order_relaxed);
    if (pthread_create(&thread, NULL, trace, tracer) != 0) {
        atomic_store_explicit(&is_tracing, 0, memory_order_relaxed);
        free(tracer);
        return;
    }
    pthread_detach(thread);
    while (sem_wait(&has_begun) != 0)
        ;
}

void hydra_status_release(const struct launch *launch)
{
    const struct launch *expected = launch;
    atomic_compare_exchange_strong_explicit(&held, &expected, NULL, memory_order_relaxed,
                                            memory_order_relaxed);
}
