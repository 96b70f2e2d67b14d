/* src/agent/poll.c: tasks that poll in loops yield their CPU when CPUs are oversubscribed.
 *
 * MPI libraries poll for messages from other nodes in loops, by epoll_wait with a timeout of 0. If
 * tasks outnumber CPUs, a rank that finds nothing keeps its CPU from tasks that have something to
 * do, perhaps from its own peer; so it yields the CPU, as other libraries do by sched_yield. If
 * CPUs are not oversubscribed nothing changes.
 *
 * The space's `oversubscribed` is written by the host (src/launch/capacity.c) and read here
 * as a hint, relaxed. */
#include <stddef.h>
#include <sys/epoll.h>

#include "agent/agent.h"
#include "arch/constants.h"
#include "base/spin.h"

typedef int epoll_wait_function(int, struct epoll_event *, int, int);

extern int *__errno_location(void) WEAK;

/* libc's own, found at the first call. Relaxed: all threads find the same address. */
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

/* Calls libc's function, which is a cancellation point, if it can be found: a program of glibc 2.33
 * or older may have no dlsym. */
static int get_events(int epoll, struct epoll_event *events, int most, int timeout)
{
    epoll_wait_function *real = find_real();
    if (real)
        return real(epoll, events, most, timeout);
    long result = raw(__NR_epoll_pwait, epoll, events, most, timeout, NULL, ARCH_SIGNAL_SET_BYTES);
    if (result >= 0)
        return (int)result;
    if (__errno_location)
        *__errno_location() = (int)-result;
    return -1;
}

EXPORTED int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    int result = get_events(epoll, events, most, timeout);
    /* Not in a forked child, whose copy of the flag is never updated. */
    if (result == 0 && timeout == 0 && agent_space && space_marked() &&
        atomic_load_explicit(&agent_space->oversubscribed, memory_order_relaxed))
        spin_yield();
    return result;
}
