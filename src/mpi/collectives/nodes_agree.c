/* src/mpi/collectives/nodes_agree.c: see nodes_parts.h; how all ranks of several spaces take one
 * decision about a call.
 *
 * A rank whose arguments are wrong may know neither the size of the data nor the root, so it cannot
 * tell what the other ranks do. Each call therefore begins with records whose size no argument
 * changes: the ranks of a space reduce theirs to the leader, the leaders reduce those of the
 * spaces, and each leader broadcasts the result. Small data travels in the records, so that such a
 * call takes no further step. */
#include <string.h>

#include "mpi/collectives/nodes_parts.h"

/* ---- Two records ---- */

/* One rank's agreement. */
struct agreeing {
    const struct nodes_joint *joint;
    int rank, is_wrong;
    size_t size; /* of its records */
};

static void mark_wrong(struct nodes_record *record, int rank)
{
    record->way = NODES_WRONG;
    record->rank = rank;
}

/* Puts the record of lower ranks in front of that of higher ones, into the latter. The smallest way
 * wins. */
static void merge(const struct agreeing *agreeing, const struct nodes_record *first,
                  struct nodes_record *second)
{
    if (agreeing->is_wrong) /* this rank cannot combine, and all are told so anyway */
        mark_wrong(second, agreeing->rank);
    else if (first->way >= NODES_LAYER && second->way >= NODES_LAYER) {
        uint16_t least = first->way < second->way ? first->way : second->way;
        agreeing->joint->combine(agreeing->joint->context, first, second);
        if (second->way > least)
            second->way = least;
    } else if (first->way <= second->way)
        memcpy(second, first, agreeing->size);
}

/* An MPI_User_function gets no context, so it finds the agreement of its thread's call here. A
 * blocking call of the library runs it on the calling thread only. */
static _Thread_local const struct agreeing *current;

static void merge_of_leaders(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++) {
        size_t at = (size_t)i * current->size;
        merge(current, (const void *)((char *)in + at), (void *)((char *)inout + at));
    }
}

static void merge_here(void *context, void *into, const void *from, size_t bytes, int from_is_first)
{
    struct nodes_record first, second;
    memcpy(&first, from_is_first ? from : into, bytes);
    memcpy(&second, from_is_first ? into : from, bytes);
    merge(context, &first, &second);
    memcpy(into, &second, bytes);
}

/* ---- Setting up ---- */

int nodes_agree_begin(struct nodes *nodes)
{
    static const int sizes[] = {NODES_SHORT, NODES_LONG};
    int result = MPI_SUCCESS;
    if (!nodes_is_leader(nodes))
        return result;
    result = pmpi()->Op_create(merge_of_leaders, 0, &nodes->merge);
    for (int i = 0; result == MPI_SUCCESS && i < 2; i++) {
        result = pmpi()->Type_contiguous(sizes[i], MPI_BYTE, &nodes->records[i]);
        if (result == MPI_SUCCESS)
            result = pmpi()->Type_commit(&nodes->records[i]);
    }
    return result;
}

void nodes_agree_end(struct nodes *nodes)
{
    if (nodes->merge != MPI_OP_NULL)
        pmpi()->Op_free(&nodes->merge);
    for (int i = 0; i < 2; i++)
        if (nodes->records[i] != MPI_DATATYPE_NULL)
            pmpi()->Type_free(&nodes->records[i]);
}

/* ---- The agreement ---- */

static void take(void *context, int from, const struct engine_part *part)
{
    (void)from;
    if (part->bytes <= sizeof(struct nodes_record))
        memcpy(context, part->data, part->bytes);
}

static int agree(const struct nodes *nodes, struct agreeing *agreeing, struct nodes_record *record)
{
    struct engine *engine = nodes->engine;
    int is_leader = nodes_is_leader(nodes), result = MPI_SUCCESS;
    MPI_Datatype type = nodes->records[agreeing->size == NODES_LONG];
    const struct engine_operation operation = {
        .combine = merge_here, .context = agreeing, .element = agreeing->size};
    if (engine)
        result =
            engine_reduce(engine, record, is_leader ? record : NULL, agreeing->size, &operation, 0);
    if (result == MPI_SUCCESS && is_leader) {
        const struct agreeing *outer = current;
        current = agreeing;
        result = pmpi()->Allreduce(MPI_IN_PLACE, record, 1, type, nodes->merge, nodes->leaders);
        current = outer;
    }
    if (!engine)
        return result;
    if (result != MPI_SUCCESS) /* the other ranks of the space must not wait */
        mark_wrong(record, nodes->rank);
    const struct engine_offer offer = {.base = record, .bytes = agreeing->size};
    int told = engine_broadcast(engine, 0, &offer, take, record);
    return result == MPI_SUCCESS ? told : result;
}

enum nodes_way nodes_agree(const struct nodes *nodes, const struct nodes_joint *joint, int error,
                           struct nodes_record *record, int *result)
{
    struct agreeing agreeing = {joint, nodes->rank, error != MPI_SUCCESS,
                                joint->is_long ? NODES_LONG : NODES_SHORT};
    if (error != MPI_SUCCESS)
        record->way = NODES_WRONG;
    record->rank = record->other = nodes->rank;
    int agreed = agree(nodes, &agreeing, record);
    *result = error != MPI_SUCCESS ? error : agreed;
    if (*result != MPI_SUCCESS)
        return NODES_WRONG;
    if (record->way == NODES_WRONG)
        *result = communicator_tell_failed(nodes->rank, record->rank);
    if (record->way == NODES_DIFFERS)
        *result = communicator_tell_different(record->rank, record->other);
    return *result == MPI_SUCCESS ? record->way : NODES_WRONG;
}

int nodes_differ(const struct nodes_record *first, struct nodes_record *second)
{
    if (first->bytes == second->bytes)
        return 0;
    second->way = NODES_DIFFERS;
    second->other = first->rank;
    return 1;
}

void nodes_unite(void *context, const struct nodes_record *first, struct nodes_record *second)
{
    (void)context;
    if (nodes_differ(first, second) || first->way != NODES_INLINE || second->way != NODES_INLINE)
        return;
    for (size_t i = 0; i < sizeof(first->data); i++)
        second->data[i] |= first->data[i];
}
