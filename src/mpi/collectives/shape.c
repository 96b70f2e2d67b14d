/* src/mpi/collectives/shape.c: see shape.h. */
#include "mpi/collectives/shape.h"

#include <string.h>

#include "mpi/types/types.h"
#include "onespace/sync/copy.h"

/* Single bytes, one after another. */
static const struct loop_nest bytes = {
    .size = 1, .extent = 1, .top = {.stride = 1, .count = 1, .size = 1}};

_Static_assert(sizeof(MPI_Count) == 8 && sizeof(MPI_Aint) == 8, "");

int64_t places_value(const void *values, int are_large, int index)
{
    int64_t value;
    if (!are_large)
        return ((const int *)values)[index];
    memcpy(&value, (const char *)values + (size_t)index * sizeof(value), sizeof(value));
    return value;
}

MPI_Count places_count(const struct places *places, int rank)
{
    return places->counts ? places_value(places->counts, places->are_large, rank) : places->count;
}

ptrdiff_t places_at(const struct places *places, int rank)
{
    return places->displacements ? places_value(places->displacements, places->are_large, rank)
                                 : (ptrdiff_t)rank * places->count;
}

int places_are_valid(const struct places *places, int ranks)
{
    if (!places->counts)
        return places->count >= 0;
    for (int i = 0; i < ranks; i++)
        if (places_count(places, i) < 0)
            return 0;
    return 1;
}

/* Whether items follow one another without gaps. */
static int is_dense(const struct loop_nest *layout)
{
    return layout->size > 0 && layout->top.size == layout->size && layout->top.count == 1 &&
           layout->top.offset == 0 && layout->extent == (int64_t)layout->size;
}

int shape_find(MPI_Datatype type, struct shape *shape)
{
    const struct type_layout *layouts;
    if (type == MPI_DATATYPE_NULL)
        return MPI_ERR_TYPE;
    const struct predefined_type *basic = predefined_type_of(type);
    if (predefined_type_is_dense(basic)) {
        *shape = (struct shape){basic->size, (ptrdiff_t)basic->extent, NULL};
        return MPI_SUCCESS;
    }
    int result = type_layout_find(type, &layouts);
    if (result != MPI_SUCCESS)
        return result;
    const struct loop_nest *found = &layouts->bytes;
    *shape = (struct shape){found->size, (ptrdiff_t)found->extent, is_dense(found) ? NULL : found};
    return MPI_SUCCESS;
}

int shape_check_committed(MPI_Datatype type)
{
    const struct type_layout *layouts;
    if (predefined_type_known(type))
        return MPI_SUCCESS;
    int result = type_layout_find(type, &layouts);
    return result == MPI_SUCCESS ? type_layout_check_committed(type, layouts) : result;
}

static struct typed_items side_of(const void *address, size_t size, const struct loop_nest *form)
{
    const struct loop_nest *layout = form ? form : &bytes;
    return (struct typed_items){(char *)address, layout->size ? size / layout->size : 0, layout};
}

int piece_fill(const struct piece *piece, const struct engine_part *from)
{
    size_t room = piece_bytes(piece);
    if (from->bytes > room)
        return MPI_ERR_TRUNCATE;
    if (!piece->shape.form && !from->form) {
        if (from->bytes && piece->address != from->data)
            onespace_copy(piece->address, from->data, from->bytes);
        return MPI_SUCCESS;
    }
    struct typed_items to = side_of(piece->address, room, piece->shape.form);
    struct typed_items source = side_of(from->data, from->bytes, from->form);
    return items_copy(&to, &source);
}

int piece_pack(const struct piece *piece, void *to)
{
    struct piece packed = piece_of_bytes(to, piece_bytes(piece));
    return piece_copy(&packed, piece);
}
