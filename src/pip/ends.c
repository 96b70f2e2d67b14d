/* src/pip/ends.c: exit, abort, signals. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "onespace.h"
#include "state.h"

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

/* Ends even if the root catches SIGABRT and continues. */
void pip_abort(void)
{
    enum { PATIENCE_S = 2 };
    if (state_is_root()) {
        if (state_mine()->mode != PIP_MODE_PTHREAD) /* else SIGKILL would come first, for all */
            (void)pip_kill_all_child_tasks();
    } else if (state_self()) {
        (void)pip_kill(PIP_PIPID_ROOT, SIGABRT);
        sleep(PATIENCE_S);
    }
    abort();
}

/* In thread mode a signal to the process could be taken by a task that waits for the same one. */
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
