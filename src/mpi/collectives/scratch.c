/* src/mpi/collectives/scratch.c: see scratch.h. */
#include "mpi/collectives/scratch.h"

#include <stdlib.h>

/* Where the bytes of items lie, from the address of the first. */
struct span {
    int64_t low, high;
};

static int find_span(MPI_Datatype type, const struct shape *shape, struct span *span)
{
    MPI_Aint low = 0, extent = (MPI_Aint)shape->size;
    int result = shape->form ? pmpi()->Type_get_true_extent(type, &low, &extent) : MPI_SUCCESS;
    *span = (struct span){low, (int64_t)low + extent};
    return result;
}

/* Of `items` items; an extent may be negative. -1: no memory can be that large. */
static int64_t bytes_of(struct span *span, int64_t extent, size_t items)
{
    int64_t reach, bytes;
    if (__builtin_mul_overflow((int64_t)(items - 1), extent, &reach))
        return -1;
    *(reach < 0 ? &span->low : &span->high) += reach;
    return __builtin_sub_overflow(span->high, span->low, &bytes) || bytes > INT64_MAX / 4 ? -1
                                                                                          : bytes;
}

static size_t items_in_room(const struct span *span, int64_t extent)
{
    int64_t step = extent < 0 ? -extent : extent, one = span->high - span->low;
    return one > SCRATCH_ROOM ? 0
           : step == 0        ? SIZE_MAX
                              : (size_t)((SCRATCH_ROOM - one) / step) + 1;
}

/* The first address of an item whose bytes begin at `from` or up to a line behind it. */
static char *place(const char *from, int64_t low)
{
    uintptr_t item = (uintptr_t)from - (uintptr_t)low;
    return (char *)((item + SCRATCH_LINE - 1) & -(uintptr_t)SCRATCH_LINE);
}

int scratch_new(struct scratch *scratch, struct rooms *rooms, MPI_Datatype type,
                const struct shape *shape, size_t items, size_t least)
{
    struct span span;
    scratch->memory = NULL;
    int result = find_span(type, shape, &span);
    if (result != MPI_SUCCESS)
        return result;
    size_t most = items_in_room(&span, shape->extent);
    scratch->items = items < most ? items : most > least ? most : least;
    int64_t each = bytes_of(&span, shape->extent, scratch->items);
    if (each < 0)
        return MPI_ERR_NO_MEM;
    char *room = rooms ? rooms->operands : NULL;
    size_t step = ((size_t)each + 2 * SCRATCH_LINE - 1) & -(size_t)SCRATCH_LINE;
    if (!room || 2 * step > sizeof(rooms->operands))
        room = scratch->memory = malloc(2 * step);
    if (!room)
        return MPI_ERR_NO_MEM;
    scratch->sum = place(room, span.low);
    scratch->next = scratch->sum + step;
    return MPI_SUCCESS;
}

void scratch_free(struct scratch *scratch)
{
    free(scratch->memory);
}
