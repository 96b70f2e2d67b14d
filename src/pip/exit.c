/* src/pip/exit.c: the end of tasks: exit, abort, signals, and the root's waits. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "onespace.h"
#include "base/futex.h"
#include "state.h"

/* ---- Waiting for tasks: root only ---- */

/* The status of tasks that died with the reaper. */
static const struct onespace_status killed = {.status = SIGKILL};

static struct record *record_of(struct state *state, int id)
{
    for (int i = 0; i < state->ntasks; i++)
        if (atomic_load(&state->records[i].state) == RECORD_ALIVE &&
            atomic_load(&state->records[i].id) == id)
            return &state->records[i];
    return NULL;
}

/* Frees the PiP id and runs the after hook. The task's memory stays until the PiP id is used again.
 * root_lock orders this after the store of the id by a thread that has just spawned the task. */
static int collect(struct state *state, int id, const struct onespace_status *end, int *pipidp,
                   int *statusp)
{
    int status = end->status;
    pthread_mutex_lock(&root_lock);
    struct record *record = record_of(state, id);
    int runs_hook = record && (end->by_exit || record->any_end);
    pip_spawnhook_t after = runs_hook ? record->after : NULL;
    void *hookarg = record ? record->hookarg : NULL;
    int pipid = record ? record->pipid : 0;
    if (record) {
        record->held = id;
        atomic_store_explicit(&record->state, RECORD_FREE, memory_order_release);
        futex_bump(&state->changes);
    }
    pthread_mutex_unlock(&root_lock);
    if (!record)
        return ECHILD;
    int error = after ? after(hookarg) : 0;
    if (error) {
        pip_err_mesg("the after hook of task %d returned %d", pipid, error);
        if (status == 0)
            status = (error & 0xff) << 8;
    }
    if (pipidp)
        *pipidp = pipid;
    if (statusp)
        *statusp = status;
    return 0;
}

static int wait_task(int pipid, int *statusp, int timeout_ms)
{
    struct record *record;
    struct onespace_status status;
    int result = state_find(pipid, &record);
    if (result)
        return result;
    if (!state_is_root())
        return EPERM;
    struct state *state = state_mine();
    if (record == state_root(state))
        return EDEADLK;
    if (atomic_load_explicit(&record->state, memory_order_acquire) != RECORD_ALIVE)
        return ECHILD;
    int id = atomic_load(&record->id);
    result = onespace_wait(id, &status, timeout_ms);
    if (result == -EOWNERDEAD) /* the reaper was killed, and all tasks with it */
        return collect(state, id, &killed, NULL, statusp);
    return result < 0 ? ECHILD : collect(state, id, &status, NULL, statusp);
}

int pip_wait(int pipid, int *status)
{
    return wait_task(pipid, status, -1);
}

int pip_trywait(int pipid, int *status)
{
    return wait_task(pipid, status, 0);
}

static int find_alive(struct state *state)
{
    for (int i = 0; i < state->ntasks; i++)
        if (atomic_load(&state->records[i].state) == RECORD_ALIVE)
            return atomic_load(&state->records[i].id);
    return 0;
}

static int wait_any(int *pipidp, int *statusp, int timeout_ms)
{
    struct onespace_status status;
    if (!state_is_root())
        return EPERM;
    struct state *state = state_mine();
    for (;;) {
        int alive = find_alive(state);
        if (!alive)
            return ECHILD;
        int id = onespace_wait(ONESPACE_ANY, &status, timeout_ms);
        int result = id == -EOWNERDEAD ? collect(state, alive, &killed, pipidp, statusp)
                     : id < 0          ? ECHILD
                                       : collect(state, id, &status, pipidp, statusp);
        if (id < 0 || result == 0)
            return result;
        /* ECHILD: a task of the native interface; wait for the next. */
    }
}

int pip_wait_any(int *pipid, int *status)
{
    return wait_any(pipid, status, -1);
}

int pip_trywait_any(int *pipid, int *status)
{
    return wait_any(pipid, status, 0);
}

/* ---- Exit and signals ---- */

void pip_exit(int status)
{
    exit(status);
}

int pip_kill_all_child_tasks(void)
{
    if (!state_is_root())
        return EPERM;
    struct state *state = state_mine();
    for (int i = 0; i < state->ntasks; i++)
        if (atomic_load_explicit(&state->records[i].state, memory_order_acquire) == RECORD_ALIVE)
            (void)!onespace_kill(atomic_load(&state->records[i].id), SIGKILL);
    return 0;
}

/* The caller ends even if the root catches SIGABRT and continues. */
void pip_abort(void)
{
    enum { ROOT_TIMEOUT_S = 2 };
    if (state_is_root()) {
        if (state_mine()->mode != PIP_MODE_PTHREAD) /* SIGKILL would end all, before SIGABRT */
            (void)pip_kill_all_child_tasks();
    } else if (state_self()) {
        (void)pip_kill(PIP_PIPID_ROOT, SIGABRT);
        sleep(ROOT_TIMEOUT_S);
    }
    abort();
}

/* In thread mode a task that waits for the signal could take one that is sent to the process. */
static int kill_main_thread(int pid, int signal)
{
    return syscall(SYS_tgkill, pid, pid, signal) == 0 ? 0 : errno;
}

int pip_kill(int pipid, int signal)
{
    struct record *record;
    int result = state_find_alive(pipid, &record);
    if (result)
        return result;
    struct state *state = state_mine();
    if (state->mode == PIP_MODE_PTHREAD && record == state_root(state))
        return kill_main_thread(onespace_pid(state_id(record)), signal);
    return -onespace_kill(state_id(record), signal);
}

int pip_sigmask(int how, const sigset_t *sigmask, sigset_t *oldmask)
{
    return state_self() ? pthread_sigmask(how, sigmask, oldmask) : EPERM;
}

int pip_signal_wait(int signal)
{
    sigset_t set;
    int caught;
    if (!state_self())
        return EPERM;
    sigemptyset(&set);
    if (sigaddset(&set, signal) != 0)
        return EINVAL;
    return sigwait(&set, &caught);
}

pid_t pip_gettid(void)
{
    return (pid_t)syscall(SYS_gettid);
}
