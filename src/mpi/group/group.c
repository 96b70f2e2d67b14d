/* src/mpi/group/group.c: see group.h. */
#include "mpi/group/group.h"

#include <stdlib.h>

void party_release(struct party *party)
{
    if (party && atomic_fetch_sub_explicit(&party->users, 1, memory_order_acq_rel) == 1)
        free(party);
}
