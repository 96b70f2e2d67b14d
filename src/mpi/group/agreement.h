/* src/mpi/group/agreement.h: the ranks of a communicator, as far as windows are concerned.
 *
 * Found out once per communicator and kept as an attribute of it: whether all ranks are tasks of
 * one space (or there is only one rank), and if so, a table in shared memory through which they
 * tell one another things without MPI. */
#ifndef ONESPACE_MPI_GROUP_AGREEMENT_H
#define ONESPACE_MPI_GROUP_AGREEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "mpi/group/group.h"
#include "mpi/real/real.h"

enum { MEETING_RECORD_MAX = 64 };

struct meeting {
    struct party *party;
    MPI_Comm comm;
    struct meeting_table *table; /* in rank 0's memory; NULL: through MPI */
    uint32_t gathers;            /* so far, on this rank */
    unsigned char *records;      /* without a table: room for all */
};

/* The meeting of comm's ranks; all of them call it at the same time. NULL with *error set when it
 * cannot be; NULL without an error for what is no communicator to make windows on, which MPI itself
 * shall say. Lives as long as the communicator. */
struct meeting *meeting_of(MPI_Comm comm, int *error);

/* Gives every rank everybody's record of `size` bytes (at most MEETING_RECORD_MAX), by rank, size
 * bytes apart, valid until the next call. All ranks call it; what a rank did before is seen by
 * those that return. MPI_SUCCESS or an error class, perhaps not on all ranks alike: then some rank
 * has ended or MPI itself failed. */
int meeting_gather(struct meeting *meeting, const void *mine, size_t size, const void **all);

#endif
