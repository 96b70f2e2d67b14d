/* src/pip/init.c: pip_init and pip_fin, and the execution mode that their options and PIP_MODE
 * select. */
#include <stdlib.h>
#include <strings.h>
#include <sys/prctl.h>

#include "onespace.h"
#include "state.h"

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

const char *mode_name(int mode)
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
    state_set_root(state);
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
    state_set_root(NULL);
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
        state_detach();
    }
    return result;
}
