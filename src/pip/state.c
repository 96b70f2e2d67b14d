/* src/pip/state.c: see state.h. */
#include "state.h"

#include <stddef.h>
#include <stdlib.h>

#include "onespace.h"

pthread_mutex_t root_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t attaching = PTHREAD_MUTEX_INITIALIZER;
static struct state *mine;
/* Stored with release, loaded with acquire: `mine` is set before. */
static _Atomic(struct record *) self;
static _Atomic int finished; /* the task called pip_fin */

struct shared_header state_header(void)
{
    return shared_header_of(STATE_MAGIC, sizeof(struct state));
}

static int is_ours(const struct state *state)
{
    struct shared_header own = state_header();
    int is_same = shared_header_matches(&state->header, &own);
    if (!is_same)
        shared_header_report("state", &state->header, "the PiP root", &own, "libpip.so");
    return is_same;
}

/* The import holds the root's memory for the caller's lifetime: the root may be a task itself. */
static int attach_locked(void)
{
    void *data = NULL, *found = NULL;
    int spawner = onespace_spawner(&data);
    if (spawner < 0 || onespace_import(spawner, STATE_EXPORT, &found, NULL, 0) != 0)
        return EPERM;
    struct state *state = found;
    if (!is_ours(state)) {
        (void)!onespace_release(spawner);
        return ELIBSCN;
    }
    struct record *record = data;
    if (record < state->records || record >= state_root(state)) { /* not one of its PiP tasks */
        (void)!onespace_release(spawner);
        return EPERM;
    }
    mine = state;
    atomic_store_explicit(&self, record, memory_order_release);
    return 0;
}

int state_attach(void)
{
    pthread_mutex_lock(&attaching);
    atomic_store(&finished, 0);
    int result = atomic_load(&self) ? 0 : attach_locked();
    pthread_mutex_unlock(&attaching);
    return result;
}

/* Tasks are initialised without asking. */
struct record *state_self(void)
{
    if (onespace_self() < 0)
        return NULL; /* a forked child has the variables, but is no member */
    struct record *record = atomic_load_explicit(&self, memory_order_acquire);
    if (!record && !atomic_load(&finished) && onespace_spawner(NULL) >= 0) {
        (void)state_attach();
        record = atomic_load_explicit(&self, memory_order_acquire);
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
    atomic_store_explicit(&self, state ? state_root(state) : NULL, memory_order_release);
}

void state_detach(void)
{
    atomic_store(&finished, 1);
    atomic_store(&self, NULL);
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
