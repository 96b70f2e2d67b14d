/* src/pip/wait.c: how tasks ended. Root only. */
#include <sys/wait.h>

#include "onespace.h"
#include "base/futex.h"
#include "state.h"

/* How a task ended whose end nobody reported. */
static const struct onespace_status killed = {.status = SIGKILL};

static struct record *record_of(struct state *state, int id)
{
    for (int i = 0; i < state->ntasks; i++)
        if (atomic_load(&state->records[i].state) == RECORD_ALIVE &&
            atomic_load(&state->records[i].id) == id)
            return &state->records[i];
    return NULL;
}

/* Frees the PiP id and runs the hook, after exit or after any end. The task's memory stays until
 * the PiP id is used again. The lock makes sure that a spawn of another thread has stored the id;
 * without it there is none. */
static int finish(struct state *state, int id, const struct onespace_status *end, int *pipidp,
                  int *statusp)
{
    int status = end->status;
    pthread_mutex_lock(&root_lock);
    struct record *record = record_of(state, id);
    int is_due = record && (end->by_exit || record->any_end);
    pip_spawnhook_t after = is_due ? record->after : NULL;
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

static int wait_one(int pipid, int *statusp, int timeout_ms)
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
    if (result == -EOWNERDEAD) /* the reaper was killed, and the tasks with it */
        return finish(state, id, &killed, NULL, statusp);
    return result < 0 ? ECHILD : finish(state, id, &status, NULL, statusp);
}

int pip_wait(int pipid, int *status)
{
    return wait_one(pipid, status, -1);
}

int pip_trywait(int pipid, int *status)
{
    return wait_one(pipid, status, 0);
}

static int any_alive(struct state *state)
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
        int left = any_alive(state);
        if (!left)
            return ECHILD;
        int id = onespace_wait(ONESPACE_ANY, &status, timeout_ms);
        int result = id == -EOWNERDEAD ? finish(state, left, &killed, pipidp, statusp)
                     : id < 0          ? ECHILD
                                       : finish(state, id, &status, pipidp, statusp);
        if (id < 0 || result == 0)
            return result;
        /* A task of the native interface, not of PiP. */
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
