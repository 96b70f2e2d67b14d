/* src/host/identity/scheduling.h: sched_getattr and sched_setattr, which not every libc declares.
 */
#ifndef ONESPACE_HOST_SCHEDULING_H
#define ONESPACE_HOST_SCHEDULING_H

#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* struct sched_attr, as of Linux 3.14. */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

/* thread 0: the caller. 0, or -1 with errno. */
static inline long scheduling_get(int32_t thread, struct scheduling *scheduling)
{
    memset(scheduling, 0, sizeof(*scheduling));
    scheduling->size = sizeof(*scheduling);
    return syscall(SYS_sched_getattr, thread, scheduling, sizeof(*scheduling), 0);
}

static inline long scheduling_set(int32_t thread, const struct scheduling *scheduling)
{
    return syscall(SYS_sched_setattr, thread, scheduling, 0);
}

#endif
