/* src/mpi/group/group.c: see group.h. */
#include "mpi/group/group.h"

#include <stdlib.h>

struct group *group_hold(struct group *group)
{
    atomic_fetch_add_explicit(&group->users, 1, memory_order_relaxed);
    return group;
}

void group_release(struct group *group)
{
    if (group && atomic_fetch_sub_explicit(&group->users, 1, memory_order_acq_rel) == 1)
        free(group);
}
