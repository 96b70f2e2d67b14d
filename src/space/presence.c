/* src/space/presence.c: see presence.h. */
#include "space/member.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/uio.h>

#include "base/futex.h"
#include "base/proc.h"
#include "base/raw.h"

enum presence process_presence(const struct space *space, int32_t pid)
{
    uint32_t mark = 0;
    uint64_t created = 0;
    struct iovec local[] = {{&mark, sizeof(mark)}, {&created, sizeof(created)}};
    struct iovec remote[] = {{(void *)LAYOUT_MARK, sizeof(mark)},
                             {(void *)&space->created_ns, sizeof(created)}};
    long result = raw(__NR_process_vm_readv, pid, local, 2, remote, 2, 0);
    if (result == -ESRCH || result == -ENOMEM)
        return PRESENCE_UNKNOWN;
    if (result < 0 && result != -EFAULT)
        return PRESENCE_DENIED;
    /* Another space has its registry and its mark at the same addresses. */
    return mark && created == space->created_ns ? PRESENCE_HERE : PRESENCE_ELSEWHERE;
}

int still_here_in_exec(const struct space *space, int32_t pid)
{
    struct proc_stat stat;
    enum presence presence = process_presence(space, pid);
    if (presence != PRESENCE_DENIED)
        return presence != PRESENCE_ELSEWHERE;
    if (proc_read_stat(pid, &stat) == 0)
        return (stat.flags & PROC_FORKNOEXEC) != 0;
    /* Without /proc: if a filter denies the call for all processes, the task counts as here until
     * it ends. */
    return process_presence(space, (int32_t)raw(__NR_getpid)) != PRESENCE_HERE;
}

void reaper_wake(struct space *space)
{
    futex_bump(&space->events);
}

void reaper_request_clone(struct space *space, struct space_slot *slot)
{
    int32_t index = (int32_t)slot_index(space, slot);
    int32_t newest = atomic_load(&space->requests);
    do
        atomic_store(&slot->next_request, newest);
    while (!atomic_compare_exchange_weak_explicit(&space->requests, &newest, index,
                                                  memory_order_release, memory_order_relaxed));
    reaper_wake(space);
}

void reaper_kill_survivors(const struct space *space)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        int32_t pid = atomic_load(&space->pids[i]);
        /* Nobody takes a PID out of the table any more: it may be another process's by now. */
        if (pid > 0 && !space_is_thread(&space->slots[i]) &&
            process_presence(space, pid) == PRESENCE_HERE)
            raw(__NR_kill, pid, SIGKILL);
    }
}

int reaper_is_alive(const struct space *space)
{
    return !(atomic_load(&space->reaper_word) & FUTEX_OWNER_DIED);
}
