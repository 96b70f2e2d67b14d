/* src/api/barrier.c: the barrier of the tasks that were started together; space/member.h has its
 * word. */
#include "onespace.h"

#include <errno.h>

#include "base/futex.h"
#include "space/member.h"

int onespace_barrier(int timeout_ms)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    struct space_slot *self = space_self();
    if (self->number < 0 || self->ntasks < 1)
        return -ENOENT;
    uint64_t deadline = futex_deadline(timeout_ms);
    uint32_t generation;
    int result = group_arrive(&space->barrier, self, &generation);
    if (result != 0)
        return result < 0 ? result : 0;
    result = group_wait(&space->barrier, generation, deadline);
    return result == -ETIMEDOUT ? group_withdraw(&space->barrier, generation) : result;
}
