/* src/mpi/collectives/check.c: see check.h. */
#include "mpi/collectives/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "mpi/group/group.h"
#include "mpi/pmpi/message.h"
#include "mpi/types/types.h"

struct record {
    char name[24];  /* without MPI_ */
    char op[16];    /* "": none */
    int64_t bytes;  /* -1: unknown */
    uint64_t parts; /* hash of each rank's bytes; 0: they are not named */
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

static void note_parts(struct record *record, const struct places *places, int ranks,
                       MPI_Count size)
{
    if (!places->counts || !places_are_valid(places, ranks))
        return;
    record->bytes = 0;
    record->parts = HASH_SEED;
    for (int i = 0; i < ranks; i++) {
        int64_t bytes = places_count(places, i) * size;
        record->bytes += bytes;
        record->parts = hash_bytes(record->parts, &bytes, sizeof(bytes));
    }
}

static struct record record_of(const struct described *call, int ranks)
{
    MPI_Count size = 0;
    struct record record = {.bytes = -1, .root = call->root};
    snprintf(record.name, sizeof(record.name), "%s", call->name + strlen("MPI_"));
    if (call->op != MPI_OP_NULL)
        snprintf(record.op, sizeof(record.op), "%s", reduce_op_name(call->op));
    if (call->type == MPI_DATATYPE_NULL || pmpi()->Type_size_x(call->type, &size) != MPI_SUCCESS)
        return record;
    if (call->places)
        note_parts(&record, call->places, ranks, size);
    else if (call->count >= 0)
        record.bytes = call->count * size;
    return record;
}

static int is_same(const struct record *one, const struct record *other)
{
    return strcmp(one->name, other->name) == 0 && strcmp(one->op, other->op) == 0 &&
           one->bytes == other->bytes && one->parts == other->parts && one->root == other->root;
}

/* "MPI_Reduce of 8 bytes with MPI_SUM, root 0" */
static void describe(const struct record *record, char *text, size_t size)
{
    char bytes[40] = "", op[24] = "", root[24] = "";
    if (record->bytes >= 0)
        snprintf(bytes, sizeof(bytes), " of %lld bytes", (long long)record->bytes);
    if (record->op[0])
        snprintf(op, sizeof(op), " with %s", record->op);
    if (record->root >= 0)
        snprintf(root, sizeof(root), ", root %d", record->root);
    snprintf(text, size, "MPI_%s%s%s%s", record->name, bytes, op, root);
}

static void tell(const struct record *first, const struct record *other, int rank)
{
    char one[128], two[128];
    int is_only_divided = first->bytes == other->bytes && first->parts && other->parts;
    describe(first, one, sizeof(one));
    describe(other, two, sizeof(two));
    layer_message(0,
                  "collective calls differ: rank 0 has called %s, and rank %d %s%s: all ranks must "
                  "make the same calls in the same order",
                  one, rank, two, is_only_divided ? ", with other counts for the ranks" : "");
}

int check_call(MPI_Comm comm, const struct described *call)
{
    int result = MPI_SUCCESS;
    struct agreement *agreement = is_wanted() ? agreement_get(comm, &result) : NULL;
    if (!agreement)
        return result;
    const struct group *group = agreement->group;
    struct record mine = record_of(call, group->ranks);
    const void *gathered;
    result = agreement_allgather(agreement, &mine, sizeof(mine), &gathered);
    const struct record *all = gathered;
    for (int i = 1; result == MPI_SUCCESS && i < group->ranks; i++)
        if (!is_same(&all[i], &all[0])) {
            if (group->rank == 0)
                tell(&all[0], &all[i], i);
            result = MPI_ERR_OTHER;
        }
    return result;
}
