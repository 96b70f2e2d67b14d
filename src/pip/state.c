/* src/pip/state.c: the state that a PiP root and its tasks share (state.h), and the functions that
 * return parts of it: ids, mode, number of tasks. */
#include "state.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/time.h>

#include "onespace.h"

pthread_mutex_t root_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t attaching = PTHREAD_MUTEX_INITIALIZER;
static struct state *mine;
/* Stored with release after `mine`, loaded with acquire. */
static _Atomic(struct record *) own_record;
static _Atomic int finished; /* the task called pip_fin */

struct shared_header state_header(void)
{
    return shared_header_of(STATE_MAGIC, sizeof(struct state));
}

static int has_own_version(const struct state *state)
{
    struct shared_header own = state_header();
    int is_same = shared_header_matches(&state->header, &own);
    if (!is_same)
        shared_header_report("state", &state->header, "the PiP root", &own, "libpip.so");
    return is_same;
}

/* The root may be a task itself, so the import holds its memory until the caller ends. */
static int attach_locked(void)
{
    void *data = NULL, *found = NULL;
    int spawner = onespace_spawner(&data);
    if (spawner < 0 || onespace_import(spawner, STATE_EXPORT, &found, NULL, 0) != 0)
        return EPERM;
    struct state *state = found;
    if (!has_own_version(state)) {
        (void)!onespace_release(spawner);
        return ELIBSCN;
    }
    struct record *record = data;
    if (record < state->records ||
        record >= state_root(state)) { /* the spawner started it by another interface */
        (void)!onespace_release(spawner);
        return EPERM;
    }
    mine = state;
    atomic_store_explicit(&own_record, record, memory_order_release);
    return 0;
}

int state_attach(void)
{
    pthread_mutex_lock(&attaching);
    atomic_store(&finished, 0);
    int result = atomic_load(&own_record) ? 0 : attach_locked();
    pthread_mutex_unlock(&attaching);
    return result;
}

/* A task need not call pip_init: the first call of any function attaches it. */
struct record *state_self(void)
{
    if (onespace_self() < 0)
        return NULL; /* a forked child inherits the variables, but is no member */
    struct record *record = atomic_load_explicit(&own_record, memory_order_acquire);
    if (!record && !atomic_load(&finished) && onespace_spawner(NULL) >= 0) {
        (void)state_attach();
        record = atomic_load_explicit(&own_record, memory_order_acquire);
    }
    return record;
}

struct state *state_mine(void)
{
    return state_self() ? mine : NULL;
}

int state_is_root(void)
{
    struct record *record = state_self();
    return record && record == state_root(mine);
}

void state_set_root(struct state *state)
{
    mine = state;
    atomic_store_explicit(&own_record, state ? state_root(state) : NULL, memory_order_release);
}

void state_detach(void)
{
    atomic_store(&finished, 1);
    atomic_store(&own_record, NULL);
}

int state_find(int pipid, struct record **record)
{
    struct record *me = state_self();
    if (!me)
        return EPERM;
    if (pipid == PIP_PIPID_ANY || pipid == PIP_PIPID_NULL)
        return EINVAL;
    if (pipid == PIP_PIPID_MYSELF)
        *record = me;
    else if (pipid == PIP_PIPID_ROOT)
        *record = state_root(mine);
    else if (pipid >= 0 && pipid < mine->ntasks)
        *record = &mine->records[pipid];
    else
        return ERANGE;
    return 0;
}

int state_id(const struct record *record)
{
    return record == state_self() ? onespace_self() : atomic_load(&record->id);
}

int state_is_alive(const struct record *record)
{
    if (record == state_self() || record == state_root(mine))
        return 1;
    return atomic_load_explicit(&record->state, memory_order_acquire) == RECORD_ALIVE &&
           onespace_pid(atomic_load(&record->id)) > 0;
}

int state_find_alive(int pipid, struct record **record)
{
    int result = state_find(pipid, record);
    return result ? result : state_is_alive(*record) ? 0 : ESRCH;
}

/* ---- Queries ---- */

int pip_get_pipid(int *pipidp)
{
    struct record *self = state_self();
    if (!self)
        return EPERM;
    if (pipidp)
        *pipidp = self->pipid;
    return 0;
}

int pip_is_initialized(void)
{
    return state_self() != NULL;
}

int pip_get_ntasks(int *ntasksp)
{
    struct state *state = state_mine();
    if (!state)
        return EPERM;
    if (ntasksp)
        *ntasksp = state->ntasks;
    return 0;
}

int pip_get_mode(int *modep)
{
    struct state *state = state_mine();
    if (!state)
        return EPERM;
    if (modep)
        *modep = state->mode;
    return 0;
}

const char *pip_get_mode_str(void)
{
    struct state *state = state_mine();
    return state ? mode_name(state->mode) : NULL;
}

int pip_get_system_id(int pipid, pip_id_t *idp)
{
    struct record *record;
    int result = state_find_alive(pipid, &record);
    if (result)
        return result;
    int pid = onespace_pid(state_id(record));
    if (pid < 0)
        return ESRCH;
    if (idp)
        *idp = (pip_id_t)pid;
    return 0;
}

int pip_isa_root(void)
{
    return state_is_root();
}

int pip_isa_task(void)
{
    return state_self() && !state_is_root();
}

int pip_is_threaded(int *flagp)
{
    struct state *state = state_mine();
    if (!state)
        return EPERM;
    if (flagp)
        *flagp = state->mode == PIP_MODE_PTHREAD;
    return 0;
}

int pip_is_shared_fd(int *flagp)
{
    return pip_is_threaded(flagp);
}

double pip_gettime(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return (double)now.tv_sec + (double)now.tv_usec * 1e-6;
}
