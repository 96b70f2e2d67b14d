/* src/runtime/barrier.c: the barrier of the tasks that were started together.
 *
 * One word: generation << 32 | number of arrivals. The last arrival starts the next generation in
 * the same compare-and-swap, so a task that dies at any instruction leaves the barrier consistent;
 * an arrival is withdrawn likewise. Waiters sleep on the half with the generation. The reaper wakes
 * them when a participant ends, since no other member may be left to do so. */
#include "onespace.h"

#include <errno.h>

#include "base/futex.h"
#include "registry/space.h"
#include "space/self.h"

static const void *generation_word(struct space *space)
{
    return (const char *)&space->barrier + 4; /* little-endian */
}

/* 1 when this arrival completed the generation; *generation is the one arrived in. */
static int arrive(struct space *space, uint32_t ntasks, uint32_t *generation)
{
    uint64_t old = atomic_load(&space->barrier), next;
    do {
        *generation = (uint32_t)(old >> 32);
        int last = (uint32_t)old + 1 >= ntasks;
        next = last ? (uint64_t)(*generation + 1) << 32 : old + 1;
    } while (!atomic_compare_exchange_weak(&space->barrier, &old, next));
    return (uint32_t)(next >> 32) != *generation;
}

/* 0, or -EAGAIN if the generation was completed meanwhile. */
static int withdraw(struct space *space, uint32_t generation)
{
    uint64_t old = atomic_load(&space->barrier);
    do
        if ((uint32_t)(old >> 32) != generation)
            return -EAGAIN;
    while (!atomic_compare_exchange_weak(&space->barrier, &old, old - 1));
    return 0;
}

int onespace_barrier(int timeout_ms)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    struct space_slot *self = space_self();
    if (self->number < 0 || self->ntasks < 1)
        return -ENOENT;
    if (atomic_load(&space->group_ended))
        return -EOWNERDEAD;
    uint64_t deadline = futex_deadline(timeout_ms);
    uint32_t generation;
    if (arrive(space, (uint32_t)self->ntasks, &generation)) {
        futex_wake(generation_word(space), INT32_MAX);
        return 0;
    }
    for (;;) {
        /* Sequentially consistent, pairs with the arrivals: all that was written before them is
         * seen after this. */
        if ((uint32_t)(atomic_load(&space->barrier) >> 32) != generation)
            return 0;
        int result = atomic_load(&space->group_ended) ? -EOWNERDEAD : 0;
        if (result == 0 && futex_wait(generation_word(space), generation, deadline) == -ETIMEDOUT)
            result = -ETIMEDOUT;
        if (result < 0 && withdraw(space, generation) == 0)
            return result;
    }
}
