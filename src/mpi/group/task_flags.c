/* src/mpi/group/task_flags.c: this process as a task, and the ranks of its job, as the space's
 * registry shows them. */
#include "mpi/group/group.h"

#include <errno.h>
#include <sys/auxv.h>

#include "onespace.h"
#include "space/registry.h"

int task_is_in_space(void)
{
    return onespace_self() >= 0;
}

static struct space_slot *own_slot(void)
{
    return (struct space_slot *)getauxval(SPACE_AT_SLOT);
}

static unsigned flags(void)
{
    const struct space_slot *slot = own_slot();
    return slot && task_is_in_space() ? slot->flags : 0;
}

int task_shares_cpu(void)
{
    const struct space *space = task_is_in_space() ? space_registry() : NULL;
    return space && atomic_load_explicit(&space->oversubscribed, memory_order_relaxed);
}

int task_is_guarded(void)
{
    return (flags() & ONESPACE_SPAWN_GUARD) != 0;
}

/* Even with --mpi-layer off the agent loads this library, for functions with large counts that the
 * MPI library lacks. */
int task_mpi_layer_is_off(void)
{
    return (flags() & ONESPACE_SPAWN_NO_MPI_LAYER) != 0;
}

enum collectives_mode task_collectives_mode(void)
{
    unsigned wanted = flags();
    return !(wanted & ONESPACE_SPAWN_COLLECTIVES)        ? COLLECTIVES_NEVER
           : wanted & ONESPACE_SPAWN_COLLECTIVES_AT_ONCE ? COLLECTIVES_AT_ONCE
                                                         : COLLECTIVES_AUTO;
}

_Atomic uint64_t *task_collectives_counter(void)
{
    return &own_slot()->stats.mpi_collectives;
}

/* Whether this rank of the job on this node is, or was, a task. A task that has executed another
 * program looks like one that has ended. Once any has done so, no ended task counts, because the
 * answer must be the same before and after a rank ends. */
static int was_started(const struct space *space, int number)
{
    int id = onespace_task(number);
    /* Acquire: pairs with the release of the task that executes another program. */
    return id >= 0 || (id == -EOWNERDEAD &&
                       atomic_load_explicit(&space->departures, memory_order_acquire) == 0);
}

const _Atomic uint32_t *task_gpu_flag(void)
{
    const struct space_slot *slot = own_slot();
    int has_flag = slot && task_is_in_space() && !(slot->flags & ONESPACE_SPAWN_NO_INTERPOSE);
    return has_flag ? &slot->interpose.gpu_library : NULL;
}

int job_has_ranks_without_layer(void)
{
    static _Atomic int are_missing = -1; /* the same for all threads */
    if (are_missing < 0) {
        int missing = 0, count = task_is_in_space() ? onespace_ntasks() : 0;
        for (int number = 0; number < count; number++) {
            int id = onespace_task(number);
            missing |= !was_started(space_registry(), number) ||
                       (id >= 0 && (space_registry()->slots[slot_index_of_id(id)].flags &
                                    ONESPACE_SPAWN_NO_MPI_LAYER));
        }
        are_missing = missing;
    }
    return are_missing;
}

int job_is_in_space(int ranks)
{
    const struct space *space = task_is_in_space() ? space_registry() : NULL;
    for (int number = 0; number < ranks; number++) {
        if (!space || !was_started(space, number))
            return 0;
        int id = onespace_task(number);
        const struct space_slot *slot = id < 0 ? own_slot() : &space->slots[slot_index_of_id(id)];
        if (slot->ntasks != ranks || !(slot->flags & ONESPACE_SPAWN_COLLECTIVES))
            return 0;
    }
    return ranks > 0 && onespace_number() >= 0;
}
