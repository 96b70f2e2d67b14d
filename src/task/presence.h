/* src/task/presence.h: which processes are in this address space. Freestanding. */
#ifndef ONESPACE_TASK_PRESENCE_H
#define ONESPACE_TASK_PRESENCE_H

#include "registry/space.h"

enum presence {
    PRESENCE_HERE,
    PRESENCE_ELSEWHERE,
    PRESENCE_UNKNOWN, /* it has ended, or the kernel is short of memory */
    PRESENCE_DENIED,  /* by the kernel for another address space, or by a seccomp filter for all */
};

/* Reads the space's mark and its time of creation through the PID. As long as the process is in
 * this address space that needs no permission. */
enum presence presence_of(const struct space *space, int32_t pid);
/* Whether the process of a task that entered execve is still in this address space. */
int presence_of_leaving(const struct space *space, int32_t pid);

#endif
