/* src/mpi/collectives/nodes_parts.h: what the operations on several nodes have in common.
 *
 * Among the leaders data is bytes in the order of the spaces, within a space in that of its ranks:
 * the node order. Ranks agree on the way of each call (nodes_agree.c), unless the operation or the
 * places of the ranks decide it. */
#ifndef ONESPACE_MPI_COLLECTIVES_NODES_PARTS_H
#define ONESPACE_MPI_COLLECTIVES_NODES_PARTS_H

#include "mpi/collectives/exchange.h"

enum {
    BROADCAST_MAX = 64 << 10, /* bytes of data */
    REDUCE_MAX = 16 << 10,
    MOVE_MAX = 64 << 10, /* of what a leader passes on */
};

/* How a call is done. If ranks say different things, the smallest value counts. */
enum nodes_way {
    NODES_WRONG,   /* not at all: the arguments of `rank` are wrong */
    NODES_DIFFERS, /* not at all: `rank` and `other` give other sizes */
    NODES_LIBRARY, /* by the MPI library */
    NODES_LAYER,
    NODES_INLINE, /* by the layer, and the data is in the records */
};

/* Every rank gives one to each agreement. Operations without a root's data or sums, which need room
 * for each rank's, use all of it: NODES_LONG bytes. The others use NODES_SHORT, which fit into a
 * slot of the engine. */
enum { NODES_SHORT = 64, NODES_LONG = 256 };
struct nodes_record {
    uint16_t way, has_data;
    uint32_t bytes;
    int32_t rank, other;
    _Alignas(16) char data[NODES_LONG - 16];
};
_Static_assert(sizeof(struct nodes_record) == NODES_LONG, "");
enum { /* bytes of data */
       SHORT_DATA_MAX = NODES_SHORT - offsetof(struct nodes_record, data),
       LONG_DATA_MAX = NODES_LONG - offsetof(struct nodes_record, data),
};

/* Puts `first` in front of `second`, into the latter, if the way of each is NODES_LAYER or
 * NODES_INLINE. */
struct nodes_joint {
    void (*combine)(void *context, const struct nodes_record *first, struct nodes_record *second);
    void *context;
    int is_long; /* the records */
};

struct nodes {
    MPI_Comm here, leaders;  /* leaders: MPI_COMM_NULL if this rank is none */
    struct engine *engine;   /* of `here`; NULL: this rank is alone */
    MPI_Op merge;            /* of a leader: of records */
    MPI_Datatype records[2]; /* of a leader: short and long ones */
    int rank, ranks, spaces;
    int most_here;   /* ranks of the largest space */
    int is_in_order; /* the node order is that of the ranks */
    char *rooms[2];  /* of a leader: MOVE_MAX bytes each */
    int *by_space;   /* the first place in node order of each space, and behind the last */
    int *by_place;   /* the ranks in node order */
    /* Of the call in progress: where each place's bytes begin, and what leaders exchange. */
    int *starts, *counts, *displacements;
    struct {
        int leader; /* among the leaders */
        int place;  /* within its space */
    } of[];         /* by rank */
};

static inline int nodes_is_leader(const struct nodes *nodes)
{
    return nodes->leaders != MPI_COMM_NULL;
}
/* Of this rank's space, among the leaders. */
static inline int nodes_own(const struct nodes *nodes)
{
    return nodes->of[nodes->rank].leader;
}
/* A rank's place in node order. */
static inline int nodes_place(const struct nodes *nodes, int rank)
{
    return nodes->by_space[nodes->of[rank].leader] + nodes->of[rank].place;
}
/* How many ranks a space has. */
static inline int nodes_size(const struct nodes *nodes, int space)
{
    return nodes->by_space[space + 1] - nodes->by_space[space];
}

/* MPI_SUCCESS or an error class; NULL objects need no end. */
int nodes_agree_begin(struct nodes *nodes);
void nodes_agree_end(struct nodes *nodes);
/* The way of all ranks, and the joint record. `error`: of this rank's arguments, or MPI_SUCCESS.
 * *result: MPI_SUCCESS; or, after NODES_WRONG, the error that the operation has on this rank. */
enum nodes_way nodes_agree(const struct nodes *nodes, const struct nodes_joint *joint, int error,
                           struct nodes_record *record, int *result);
/* Whether the two give other sizes; then `second` becomes NODES_DIFFERS. */
int nodes_differ(const struct nodes_record *first, struct nodes_record *second);
/* Combines long records in which each rank has put its data at places of its own, and zeros at
 * those of the others. */
void nodes_unite(void *context, const struct nodes_record *first, struct nodes_record *second);
/* For `bytes` bytes in records that hold `most` of them; 0: the library does the operation. */
static inline enum nodes_way nodes_way_of(size_t bytes, size_t most)
{
    return bytes == 0 ? NODES_LIBRARY : bytes <= most ? NODES_INLINE : NODES_LAYER;
}

/* Within a space, from the rank at that place. */
int nodes_broadcast_here(const struct nodes *nodes, const struct one *data, int place);

#endif
