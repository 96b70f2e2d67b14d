/* src/mpi/types/contents.c: see contents.h. */
#include "mpi/types/contents.h"

#include <stdlib.h>

static int read_envelope(MPI_Datatype type, struct contents *contents)
{
    int integers, addresses, types, result;
    if (real()->Type_get_envelope_c)
        return real()->Type_get_envelope_c(type, &contents->integers, &contents->addresses,
                                           &contents->counts, &contents->types,
                                           &contents->combiner);
    result = real()->Type_get_envelope(type, &integers, &addresses, &types, &contents->combiner);
    contents->integers = integers;
    contents->addresses = addresses;
    contents->counts = 0;
    contents->types = types;
    return result;
}

/* The buffers that MPI fills. */
struct given {
    int *integer;
    MPI_Aint *address;
    MPI_Count *count;
};

static int get_contents(MPI_Datatype type, const struct contents *contents,
                        const struct given *given)
{
    if (real()->Type_get_contents_c)
        return real()->Type_get_contents_c(type, contents->integers, contents->addresses,
                                           contents->counts, contents->types, given->integer,
                                           given->address, given->count, contents->type);
    return real()->Type_get_contents(type, (int)contents->integers, (int)contents->addresses,
                                     (int)contents->types, given->integer, given->address,
                                     contents->type);
}

/* How many of the large counts belong to `number`; the rest are addresses. */
static MPI_Count numbers_among_counts(int combiner, const MPI_Count *count, MPI_Count counts)
{
    switch (counts ? combiner : MPI_COMBINER_NAMED) {
    case MPI_COMBINER_RESIZED:
        return 0;
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_HINDEXED_BLOCK:
        return 2;
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_STRUCT:
        return 1 + count[0];
    default:
        return counts;
    }
}

/* How many integers come before the large counts. */
static MPI_Count integers_before_counts(int combiner, MPI_Count integers)
{
    return combiner == MPI_COMBINER_SUBARRAY ? 1 : combiner == MPI_COMBINER_DARRAY ? 3 : integers;
}

static void put_in_order(const struct given *given, struct contents *contents)
{
    int64_t *number = contents->number, *address = contents->address;
    MPI_Count first = integers_before_counts(contents->combiner, contents->integers);
    MPI_Count numbers = numbers_among_counts(contents->combiner, given->count, contents->counts);
    for (MPI_Count i = 0; i < first; i++)
        *number++ = given->integer[i];
    for (MPI_Count i = 0; i < numbers; i++)
        *number++ = given->count[i];
    for (MPI_Count i = first; i < contents->integers; i++)
        *number++ = given->integer[i];
    for (MPI_Count i = 0; i < contents->addresses; i++)
        *address++ = given->address[i];
    for (MPI_Count i = numbers; i < contents->counts; i++)
        *address++ = given->count[i];
}

static void free_lists(const struct contents *contents)
{
    if (contents->number != contents->few)
        free(contents->number);
}

int contents_read(MPI_Datatype type, struct contents *contents)
{
    int result = read_envelope(type, contents);
    if (result != MPI_SUCCESS)
        return result;
    size_t integers = (size_t)contents->integers, addresses = (size_t)contents->addresses;
    size_t counts = (size_t)contents->counts, types = (size_t)contents->types;
    /* One block; the members that need the most alignment come first. */
    size_t size = (integers + addresses + 2 * counts) * sizeof(int64_t) +
                  counts * sizeof(MPI_Count) + addresses * sizeof(MPI_Aint) +
                  types * sizeof(MPI_Datatype) + integers * sizeof(int);
    contents->number = size <= sizeof(contents->few) ? contents->few : malloc(size);
    if (!contents->number)
        return MPI_ERR_NO_MEM;
    contents->address = contents->number + integers + counts;
    struct given given = {.count = (MPI_Count *)(contents->address + addresses + counts)};
    given.address = (MPI_Aint *)(given.count + counts);
    contents->type = (MPI_Datatype *)(given.address + addresses);
    given.integer = (int *)(contents->type + types);
    result = get_contents(type, contents, &given);
    if (result == MPI_SUCCESS)
        put_in_order(&given, contents);
    else
        free_lists(contents);
    return result;
}

void contents_free(struct contents *contents)
{
    for (MPI_Count i = 0; i < contents->types; i++)
        if (!types_basic(contents->type[i]))
            real()->Type_free(&contents->type[i]);
    free_lists(contents);
}
