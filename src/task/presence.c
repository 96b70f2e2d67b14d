/* src/task/presence.c: see presence.h. */
#include "task/presence.h"

#include <errno.h>
#include <sys/uio.h>

#include "base/proc.h"
#include "base/raw.h"

enum presence presence_of(const struct space *space, int32_t pid)
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

int presence_of_leaving(const struct space *space, int32_t pid)
{
    struct proc_stat stat;
    enum presence presence = presence_of(space, pid);
    if (presence != PRESENCE_DENIED)
        return presence != PRESENCE_ELSEWHERE;
    if (proc_read_stat(pid, &stat) == 0)
        return (stat.flags & PROC_FORKNOEXEC) != 0;
    /* Without /proc: if a filter denies the call for all processes, the task counts as here until
     * it ends. */
    return presence_of(space, (int32_t)raw(__NR_getpid)) != PRESENCE_HERE;
}
