/* src/pip/init.c: pip_init and pip_fin. */
#include <stdlib.h>
#include <sys/prctl.h>

#include "onespace.h"
#include "state.h"

static int made_space;       /* by pip_init: pip_fin ends it */
static char name_before[16]; /* the root's, as ps shows it */

/* "R:program", so that ps and pips tell root and tasks apart, as with Process-in-Process. */
static void set_name(int mode)
{
    char name[20];
    prctl(PR_GET_NAME, name_before);
    snprintf(name, sizeof(name), "R%c%.13s", mode_sign(mode), name_before);
    prctl(PR_SET_NAME, name);
}

/* When the root ends while tasks live, they end too, also if the root is a task itself. */
static void at_exit(void)
{
    if (state_is_root() && state_mine()->mode != PIP_MODE_PTHREAD) /* threads end anyway */
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
    made_space = !was_member;
    struct state *state = make_state(ntasks, mode, root_export);
    int result = state ? onespace_export(STATE_EXPORT, state, sizeof(*state)) : -ENOMEM;
    if (result < 0) {
        free(state);
        if (made_space)
            (void)!onespace_fini();
        return -result;
    }
    atomic_store(&state_root(state)->id, id);
    atomic_store(&state_root(state)->state, RECORD_ALIVE);
    state_set_root(state);
    spawn_note_cpus();
    set_name(mode);
    debug_prepare();
    if (!registered)
        registered = atexit(at_exit) == 0;
    return 0;
}

static int check_root(const int *ntasksp, int opts, int *mode)
{
    int ntasks = ntasksp ? *ntasksp : PIP_NTASKS_MAX;
    return ntasks <= 0 ? EINVAL : ntasks > PIP_NTASKS_MAX ? EOVERFLOW : mode_choose(opts, mode);
}

static void give_to_task(int *ntasksp, void **root_expp)
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
            give_to_task(ntasksp, root_expp);
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
    prctl(PR_SET_NAME, name_before);
    free(state);
    if (made_space)
        (void)!onespace_fini(); /* refused while tasks of the native interface live: theirs then */
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
