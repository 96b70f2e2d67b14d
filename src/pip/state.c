/* src/pip/state.c: the state that a PiP root and its tasks share (state.h): pip_init makes it or
 * attaches to it, pip_fin ends that, and the functions that return parts of it. */
#include "state.h"

#include <stddef.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/time.h>

#include "onespace.h"

pthread_mutex_t root_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t attaching = PTHREAD_MUTEX_INITIALIZER;
static struct state *mine;
/* Stored with release after `mine`, loaded with acquire. */
static _Atomic(struct record *) own_record;
static _Atomic int finished; /* the task called pip_fin */

/* The header that this version writes. */
static struct shared_header state_header(void)
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

/* The root may be a task itself, so the first import holds its memory until the caller ends. */
static int attach_locked(void)
{
    static int holds_root;
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
    if (holds_root) /* before pip_fin */
        (void)!onespace_release(spawner);
    holds_root = 1;
    mine = state;
    atomic_store_explicit(&own_record, record, memory_order_release);
    return 0;
}

/* Attaches a task to its root: 0, EPERM if no PiP root spawned the caller, or ELIBSCN. */
static int state_attach(void)
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
        return NULL; /* a forked child inherits the variables, but is not a member */
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

/* The state of a root; NULL: after pip_fin. */
static void set_root(struct state *state)
{
    mine = state;
    atomic_store_explicit(&own_record, state ? state_root(state) : NULL, memory_order_release);
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

struct record *state_record_of(struct state *state, int id)
{
    for (int i = state->ntasks; i >= 0;
         i--) /* the root is the last; 0: the PiP id was never used */
        if ((id || i == state->ntasks) && atomic_load(&state->records[i].id) == id)
            return &state->records[i];
    return NULL;
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

/* ---- The execution mode ---- */

static const struct {
    const char *name;
    unsigned modes; /* the modes that the name allows */
} names[] = {
    {PIP_ENV_MODE_PROCESS, PIP_MODE_PROCESS},
    {PIP_ENV_MODE_PROCESS_PRELOAD, PIP_MODE_PROCESS_PRELOAD},
    {PIP_ENV_MODE_PROCESS_PIPCLONE, PIP_MODE_PROCESS_PIPCLONE},
    {PIP_ENV_MODE_THREAD, PIP_MODE_PTHREAD},
    {PIP_ENV_MODE_PTHREAD, PIP_MODE_PTHREAD},
};

/* Returns the modes that PIP_MODE allows; 0: it names none. */
static unsigned allowed_by_environment(void)
{
    const char *wanted = getenv(PIP_ENV_MODE);
    if (!wanted || !*wanted)
        return PIP_MODE_PROCESS | PIP_MODE_PTHREAD;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcasecmp(wanted, names[i].name) == 0)
            return names[i].modes;
    pip_err_mesg("%s=%s: not an execution mode; set process or pthread", PIP_ENV_MODE, wanted);
    return 0;
}

static int choose_mode(int opts, int *mode)
{
    unsigned requested = (unsigned)opts & PIP_MODE_MASK;
    if ((unsigned)opts & ~PIP_MODE_MASK)
        return EPERM;
    if (requested && requested != PIP_MODE_PROCESS && requested != PIP_MODE_PROCESS_PRELOAD &&
        requested != PIP_MODE_PROCESS_PIPCLONE && requested != PIP_MODE_PTHREAD)
        return EINVAL;
    unsigned allowed = allowed_by_environment();
    if (requested)
        allowed &= requested;
    if (allowed & PIP_MODE_PROCESS_PRELOAD)
        *mode = PIP_MODE_PROCESS_PRELOAD;
    else if (allowed & PIP_MODE_PROCESS_PIPCLONE)
        *mode = PIP_MODE_PROCESS_PIPCLONE;
    else if (allowed & PIP_MODE_PTHREAD)
        *mode = PIP_MODE_PTHREAD;
    else
        return EPERM;
    return 0;
}

static const char *mode_name(int mode)
{
    return mode == PIP_MODE_PTHREAD            ? PIP_ENV_MODE_PTHREAD
           : mode == PIP_MODE_PROCESS_PIPCLONE ? PIP_ENV_MODE_PROCESS_PIPCLONE
                                               : PIP_ENV_MODE_PROCESS_PRELOAD;
}

char mode_sign(int mode)
{
    return mode == PIP_MODE_PTHREAD ? '|' : mode == PIP_MODE_PROCESS_PIPCLONE ? ';' : ':';
}

/* ---- The root ---- */

static int owns_space;         /* pip_init created the space, so pip_fin ends it */
static char original_name[16]; /* the root's thread name before pip_init */

/* Names the root "R:program", as Process-in-Process does, so that ps and pips show the root. */
static void set_root_name(int mode)
{
    char name[20];
    prctl(PR_GET_NAME, original_name);
    snprintf(name, sizeof(name), "R%c%.13s", mode_sign(mode), original_name);
    prctl(PR_SET_NAME, name);
}

/* A root that exits ends its tasks, even if it is a task itself. */
static void kill_tasks_at_exit(void)
{
    if (state_is_root() &&
        state_mine()->mode != PIP_MODE_PTHREAD) /* threads end with the process */
        (void)pip_kill_all_child_tasks();
}

static struct state *make_state(int ntasks, int mode, void *root_export)
{
    size_t size = sizeof(struct state) + (size_t)(ntasks + 1) * sizeof(struct record);
    struct state *state = calloc(1, size);
    if (!state)
        return NULL;
    state->header = state_header();
    state->ntasks = ntasks;
    state->mode = mode;
    state->quiet = getenv(PIP_ENV_QUIET) != NULL;
    state->root_export = root_export;
    for (int i = 0; i < ntasks; i++)
        state->records[i].pipid = i;
    state_root(state)->pipid = PIP_PIPID_ROOT;
    return state;
}

static int init_root(int ntasks, int mode, void *root_export)
{
    static int registered;
    int was_member = onespace_self() >= 0, id = onespace_init();
    if (id < 0)
        return -id;
    owns_space = !was_member;
    struct state *state = make_state(ntasks, mode, root_export);
    int result = state ? onespace_export(STATE_EXPORT, state, sizeof(*state)) : -ENOMEM;
    if (result < 0) {
        free(state);
        if (owns_space)
            (void)!onespace_fini();
        return -result;
    }
    atomic_store(&state_root(state)->id, id);
    atomic_store(&state_root(state)->state, RECORD_ALIVE);
    set_root(state);
    spawn_find_usable_cpus();
    set_root_name(mode);
    debug_install_handlers();
    if (!registered)
        registered = atexit(kill_tasks_at_exit) == 0;
    return 0;
}

static int check_root(const int *ntasksp, int opts, int *mode)
{
    int ntasks = ntasksp ? *ntasksp : PIP_NTASKS_MAX;
    return ntasks <= 0 ? EINVAL : ntasks > PIP_NTASKS_MAX ? EOVERFLOW : choose_mode(opts, mode);
}

static void store_task_results(int *ntasksp, void **root_expp)
{
    struct state *state = state_mine();
    if (ntasksp)
        *ntasksp = state->ntasks;
    if (root_expp && state->root_export)
        *root_expp = state->root_export;
}

int pip_init(int *pipidp, int *ntasksp, void **root_expp, int opts)
{
    int mode = 0, result = EPERM;
    pthread_mutex_lock(&root_lock);
    if (state_is_root()) {
        result = EBUSY;
    } else {
        if (onespace_spawner(NULL) >= 0)
            result = state_attach();
        if (result == 0) {
            store_task_results(ntasksp, root_expp);
        } else if (result == EPERM) {
            result = check_root(ntasksp, opts, &mode);
            if (result == 0)
                result = init_root(ntasksp ? *ntasksp : PIP_NTASKS_MAX, mode,
                                   root_expp ? *root_expp : NULL);
        }
    }
    pthread_mutex_unlock(&root_lock);
    if (result == 0 && pipidp)
        *pipidp = state_self()->pipid;
    return result;
}

static int fin_root(void)
{
    struct state *state = state_mine();
    for (int i = 0; i < state->ntasks; i++)
        if (atomic_load(&state->records[i].state) != RECORD_FREE)
            return EBUSY;
    for (int i = 0; i < state->ntasks; i++)
        if (state->records[i].held)
            (void)!onespace_release(state->records[i].held);
    set_root(NULL);
    (void)!onespace_unexport(STATE_EXPORT);
    prctl(PR_SET_NAME, original_name);
    free(state);
    if (owns_space)
        (void)!onespace_fini(); /* fails while tasks of the native interface live; the space then
                                   stays */
    return 0;
}

int pip_fin(void)
{
    int result = 0;
    if (!state_self())
        return EPERM;
    if (state_is_root()) {
        pthread_mutex_lock(&root_lock);
        result = fin_root();
        pthread_mutex_unlock(&root_lock);
    } else {
        export_release_all();
        atomic_store(&finished, 1);
        atomic_store(&own_record, NULL);
    }
    return result;
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
