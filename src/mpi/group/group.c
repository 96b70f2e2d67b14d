/* src/mpi/group/group.c: see group.h. */
#include "mpi/group/group.h"

#include <stdlib.h>

void group_release(struct group *group)
{
    if (group && atomic_fetch_sub_explicit(&group->users, 1, memory_order_acq_rel) == 1)
        free(group);
}
