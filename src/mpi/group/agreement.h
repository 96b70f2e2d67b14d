/* src/mpi/group/agreement.h: how the ranks of a communicator exchange what they have to agree on.
 *
 * Set up once per communicator and kept as an attribute of it: which ranks share this one's space
 * and node and, when all are in one space (or there is only one rank), a table in shared memory
 * through which they exchange records without MPI. */
#ifndef ONESPACE_MPI_GROUP_AGREEMENT_H
#define ONESPACE_MPI_GROUP_AGREEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "mpi/group/group.h"
#include "mpi/real/real.h"

enum { AGREEMENT_RECORD_MAX = 64 };

struct agreement {
    struct group *group;
    MPI_Comm comm;
    struct agreement_table *table; /* in rank 0's memory; NULL: records go through MPI */
    uint32_t gathers;              /* so far, by this rank */
    unsigned char *records;        /* without a table: room for all records */
};

/* Whether all ranks of comm have the layer, so that agreement_of can be called: a rank without it
 * would not answer. Decided by what each rank knows, which the others know, too:
 *
 *   an agreement exists, or comm has this rank only         1
 *   ONESPACE_MPI_LAYER=all, by which the user says so        1
 *   some rank of the job on this node lacks the layer        0
 *   comm has ranks that are not in MPI_COMM_WORLD: spawned   0
 *   or connected processes
 *   else                                                     1
 *
 * Not known is whether ranks on other nodes are processes. */
int agreement_is_possible(MPI_Comm comm);

/* The agreement of comm's ranks. Collective; lives as long as the communicator. NULL with *error
 * set: out of memory, or MPI failed. NULL without an error: no communicator to create windows on,
 * which MPI itself will report. */
struct agreement *agreement_of(MPI_Comm comm, int *error);

/* Gives every rank the records of all, `size` bytes each (at most AGREEMENT_RECORD_MAX), in rank
 * order and valid until the next call. Collective; what a rank wrote before the call is visible to
 * those that return. MPI_SUCCESS or an error class, which may differ between ranks: a rank has
 * ended, or MPI failed. */
int agreement_gather(struct agreement *agreement, const void *mine, size_t size, const void **all);

#endif
