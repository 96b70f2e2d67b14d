/* src/mpi/collectives/check.c: see check.h. */
#include "mpi/collectives/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/group/agreement.h"
#include "mpi/real/message.h"
#include "mpi/types/reduce.h"

struct record {
    char name[24];
    char op[16]; /* "": none */
    int64_t bytes;
    int32_t root;
};
_Static_assert(sizeof(struct record) <= AGREEMENT_RECORD_MAX, "a record");

static int is_wanted(void)
{
    static _Atomic int wanted = -1; /* all threads find the same */
    const char *log = wanted < 0 ? getenv("ONESPACE_LOG") : NULL;
    if (wanted < 0)
        wanted = log && strcmp(log, "check") == 0;
    return wanted;
}

static struct record record_of(const struct described *call)
{
    MPI_Count size = 0;
    struct record record = {.bytes = -1, .root = call->root};
    snprintf(record.name, sizeof(record.name), "%s", call->name);
    if (call->op != MPI_OP_NULL)
        snprintf(record.op, sizeof(record.op), "%s", reduce_name(call->op));
    if (call->count >= 0 && call->type != MPI_DATATYPE_NULL &&
        real()->Type_size_x(call->type, &size) == MPI_SUCCESS)
        record.bytes = call->count * size;
    return record;
}

static int is_same(const struct record *one, const struct record *other)
{
    return strcmp(one->name, other->name) == 0 && strcmp(one->op, other->op) == 0 &&
           one->bytes == other->bytes && one->root == other->root;
}

/* "MPI_Reduce of 8 bytes with MPI_SUM to root 0" */
static void describe(const struct record *record, char *text, size_t size)
{
    char bytes[40] = "", op[24] = "", root[24] = "";
    if (record->bytes >= 0)
        snprintf(bytes, sizeof(bytes), " of %lld bytes", (long long)record->bytes);
    if (record->op[0])
        snprintf(op, sizeof(op), " with %s", record->op);
    if (record->root >= 0)
        snprintf(root, sizeof(root), ", root %d", record->root);
    snprintf(text, size, "%s%s%s%s", record->name, bytes, op, root);
}

int check_call(const struct communicator *communicator, const struct described *call)
{
    int result = MPI_SUCCESS, rank = communicator->group->rank;
    struct agreement *agreement = is_wanted() ? agreement_of(communicator->comm, &result) : NULL;
    if (!agreement)
        return result;
    struct record mine = record_of(call);
    const void *gathered;
    result = agreement_gather(agreement, &mine, sizeof(mine), &gathered);
    const struct record *all = gathered;
    for (int i = 1; result == MPI_SUCCESS && i < communicator->group->ranks; i++)
        if (!is_same(&all[i], &all[0])) {
            char one[128], other[128];
            describe(&all[0], one, sizeof(one));
            describe(&all[i], other, sizeof(other));
            if (rank == 0)
                layer_message(rank,
                              "collective calls differ: rank 0 has called %s, and rank %d %s: all "
                              "ranks must make the same calls in the same order",
                              one, i, other);
            result = MPI_ERR_OTHER;
        }
    return result;
}
