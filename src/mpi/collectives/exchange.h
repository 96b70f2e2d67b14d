/* src/mpi/collectives/exchange.h: what the operations that only move data have in common.
 *
 * Each rank reads what is for it in the memory of the others, whatever types the two have. */
#ifndef ONESPACE_MPI_COLLECTIVES_EXCHANGE_H
#define ONESPACE_MPI_COLLECTIVES_EXCHANGE_H

#include "mpi/collectives/check.h"
#include "mpi/collectives/communicator.h"
#include "mpi/collectives/nodes.h"
#include "mpi/collectives/operations.h"

/* Whether send and receive buffer may be the same: Open MPI accepts it except in MPI_Reduce and
 * MPI_Allreduce. */
static inline int exchange_may_alias(void)
{
    return pmpi_is_open_mpi();
}
/* The class of the error where MPI does not allow MPI_IN_PLACE. */
static inline int exchange_in_place_error(void)
{
    return pmpi_is_open_mpi() ? MPI_ERR_ARG : MPI_ERR_BUFFER;
}

enum { FEW_RANKS = 64 };

/* One rank's call. */
struct exchange {
    struct communicator *communicator; /* NULL: there is none, with `result` */
    const struct nodes *nodes;         /* of a communicator over several spaces, else NULL */
    int rank, ranks;
    int root, is_root;             /* ENGINE_EVERYBODY: no rank is */
    int result;                    /* MPI_SUCCESS, or the first error; set by takes, too */
    const struct engine_part *own; /* what this rank gets from itself; NULL: nothing */
};

/* 1: the call is the layer's, within one space, on every rank; exchange_end ends it. This depends
 * on the communicator alone. call->result: an error, after which there is nothing to do. */
int exchange_begin(struct exchange *call, MPI_Comm comm, const struct described *what);
/* This rank's arguments are wrong, which no other rank can know: in place of the call's operation.
 * Ranks that need anything of this one get MPI_ERR_OTHER. */
void exchange_fail(struct exchange *call, int error);
/* Which buffers of a reduction a rank uses, and whether they may be the same. */
struct use_of_buffers {
    int gets; /* else it only gives */
    int must_differ;
    int error; /* the class of the library's error for MPI_IN_PLACE or equal buffers */
};
/* MPI_SUCCESS, or the class of what is wrong with this rank's buffers. has_form: their type may say
 * where they are, so that their address is MPI_BOTTOM. */
int exchange_check_buffers(const struct reduction *call, const struct use_of_buffers *use,
                           int has_form);
/* For MPI_Reduce; and for MPI_Allreduce, whose root is ENGINE_EVERYBODY. */
static inline struct use_of_buffers exchange_use_of_reduce(int root, int rank)
{
    int to_all = root == ENGINE_EVERYBODY, gets = to_all || root == rank;
    return (struct use_of_buffers){gets, gets, to_all ? MPI_ERR_BUFFER : exchange_in_place_error()};
}
/* For an operation without a root. The library checks ranks that get nothing like the others. */
static inline struct use_of_buffers exchange_use_without_root(const struct reduction *call,
                                                              int gets)
{
    return (struct use_of_buffers){gets || call->send == MPI_IN_PLACE, !exchange_may_alias(),
                                   exchange_in_place_error()};
}
/* Calls the error handler after an error. Returns 1. */
int exchange_end(const struct exchange *call, MPI_Comm comm, int *result);

/* Where data of a derived type is packed first if it is short: the copy spares the giver the wait
 * for its readers. NULL: it is not to be packed. */
char *exchange_room(const struct exchange *call, int has_form, size_t bytes);

/* Says that `from` gives other sizes than this rank expects. */
void exchange_tell_sizes(const struct exchange *call, int from, size_t given, size_t expected);

/* Puts what `from` gives into the piece; of this rank itself, call->own. */
void exchange_get(struct exchange *call, const struct piece *piece, int from,
                  const struct engine_part *part);
/* Gets, from one rank only, into one piece. */
struct taking {
    struct exchange *call;
    const struct piece *piece;
};
engine_take exchange_take; /* context: a struct taking */
/* Puts the data of a broadcast into the piece, unless this rank gave it. MPICH refuses less data
 * than a rank expects, Open MPI accepts it. Returns call->result. */
int exchange_get_broadcast(struct exchange *call, const struct piece *piece, int from,
                           const struct engine_part *part);
/* Gets from each rank into its place. */
struct getting_each {
    struct exchange *call;
    const struct many *to;
    struct shape shape; /* of `to` */
};
engine_take exchange_get_each; /* context: a struct getting_each */
void exchange_run(struct exchange *call, enum engine_call what, int from, int to,
                  const struct engine_offer *mine, engine_take *take, void *context);

/* Which types the library wants committed: Open MPI those whose data is sent, MPICH all, except in
 * a broadcast of nothing. */
enum use { USE_SENDS, USE_RECEIVES, USE_BROADCASTS };

/* MPI_SUCCESS, or the class of what is wrong with the arguments. */
int exchange_one(const struct one *one, enum use use, struct piece *piece);
/* *shape: of all of `many` but Alltoallw's, which has one for each rank. */
int exchange_many(const struct exchange *call, const struct many *many, enum use use,
                  struct shape *shape);
/* Whether a rank may not give to each and get from each so: with some data, at the same address,
 * and, as MPICH compares them, with the same counts and types. */
int exchange_is_aliased(const struct exchange *call, const struct many *from,
                        const struct many *to);
/* Whether a rank that gathers gives what lies where it is gathered, or one that scatters gets it
 * where it lies: the cases that MPICH refuses. */
int exchange_is_own_place(const struct exchange *call, const struct one *one,
                          const struct many *all, const struct shape *shape);
int exchange_piece(const struct many *many, const struct shape *shape, int rank,
                   struct piece *piece);

/* What this rank gives to each. */
struct giving {
    struct engine_offer offer;
    struct engine_part few[FEW_RANKS], *parts;
    void *copy;
};
/* MPI_SUCCESS, or an error, after which there is nothing to end. is_copied: of a copy, since this
 * rank gets where it gives. */
int exchange_give(const struct exchange *call, const struct many *from, const struct shape *shape,
                  int is_copied, struct giving *giving);
void exchange_give_end(struct giving *giving);

#endif
