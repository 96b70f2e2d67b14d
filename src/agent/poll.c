/* src/agent/poll.c: tasks that wait in loops, and how they give their processor up.
 *
 * MPI libraries look for messages from other nodes in loops, with an epoll_wait that does not wait.
 * Where tasks outnumber processors a rank that finds nothing keeps its processor from those that
 * have something to do, its own partner perhaps; so it gives the processor up, as others do by
 * sched_yield. Without a crowd nothing changes.
 *
 * Both are counted: tasks that give way by themselves need no turns made for them (host/turns.c).
 * `oversubscribed` of the space is written by the host's threads that make turns, `yields` by the
 * task; the other side reads each as a hint. */
#include <sched.h>
#include <stddef.h>
#include <sys/epoll.h>

#include "agent/agent.h"
#include "base/raw.h"

typedef int epoll_wait_function(int, struct epoll_event *, int, int);

extern int *__errno_location(void) WEAK;

/* libc's own, found at the first call; whichever thread finds it, it is the same. */
static epoll_wait_function *_Atomic real_epoll_wait;

static epoll_wait_function *find_real(void)
{
    epoll_wait_function *real = atomic_load_explicit(&real_epoll_wait, memory_order_relaxed);
    if (!real && dlsym) {
        real = (epoll_wait_function *)dlsym(RTLD_NEXT, "epoll_wait");
        atomic_store_explicit(&real_epoll_wait, real, memory_order_relaxed);
    }
    return real;
}

/* Through libc's, which is a point of cancellation; a program of glibc 2.33 or older may have no
 * dlsym to find it with. */
static int get_events(int epoll, struct epoll_event *events, int most, int timeout)
{
    epoll_wait_function *real = find_real();
    if (real)
        return real(epoll, events, most, timeout);
    long result = raw(__NR_epoll_pwait, epoll, events, most, timeout, NULL, 8);
    if (result >= 0)
        return (int)result;
    if (__errno_location)
        *__errno_location() = (int)-result;
    return -1;
}

static void give_way(void)
{
    atomic_fetch_add_explicit(&agent_self->stats.yields, 1, memory_order_relaxed);
    raw(__NR_sched_yield);
}

EXPORTED int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    int result = get_events(epoll, events, most, timeout);
    /* A forked child has the flag as it was then. */
    if (result == 0 && timeout == 0 && agent_space && space_marked() &&
        atomic_load_explicit(&agent_space->oversubscribed, memory_order_relaxed))
        give_way();
    return result;
}

EXPORTED int sched_yield(void)
{
    if (agent_space)
        give_way();
    else
        raw(__NR_sched_yield);
    return 0; /* it cannot fail */
}
