/* src/pip/questions.c: the caller's identity, mode and state. */
#include <sys/time.h>

#include "onespace.h"
#include "state.h"

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
