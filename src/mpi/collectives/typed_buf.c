/* src/mpi/collectives/typed_buf.c: see typed_buf.h. */
#include "mpi/collectives/typed_buf.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/types/types.h"
#include "onespace/sync/copy.h"

_Static_assert(sizeof(MPI_Count) == 8 && sizeof(MPI_Aint) == 8, "");

/* ---- Arguments ---- */

int64_t int_array_get(const void *values, int is_large, int index)
{
    int64_t value;
    if (!is_large)
        return ((const int *)values)[index];
    memcpy(&value, (const char *)values + (size_t)index * sizeof(value), sizeof(value));
    return value;
}

int buf_counts_are_valid(const struct coll_buf *desc, int ranks)
{
    if (!desc->counts)
        return desc->count >= 0;
    for (int i = 0; i < ranks; i++)
        if (buf_count(desc, i) < 0)
            return 0;
    return 1;
}

/* ---- Types ---- */

static int is_contiguous(const struct loop_nest *layout)
{
    return layout->size > 0 && layout->top.size == layout->size && layout->top.count == 1 &&
           layout->top.offset == 0 && layout->extent == (int64_t)layout->size;
}

int item_layout_find(MPI_Datatype datatype, struct item_layout *type)
{
    const struct type_layout *layouts;
    const struct predefined_type *basic = predefined_type_of(datatype);
    if (predefined_type_is_dense(basic)) {
        *type = (struct item_layout){basic->size, (ptrdiff_t)basic->extent, NULL};
        return MPI_SUCCESS;
    }
    int result = type_layout_find(datatype, &layouts);
    if (result != MPI_SUCCESS)
        return result;
    const struct loop_nest *found = &layouts->bytes;
    *type = (struct item_layout){found->size, (ptrdiff_t)found->extent,
                                 is_contiguous(found) ? NULL : found};
    return MPI_SUCCESS;
}

int type_check_committed(MPI_Datatype datatype)
{
    const struct type_layout *layouts;
    if (predefined_type_known(datatype))
        return MPI_SUCCESS;
    return type_layout_find_committed(datatype, &layouts);
}

/* ---- Copies ---- */

static struct typed_items side_of(const void *addr, size_t bytes, const struct loop_nest *layout)
{
    static const struct loop_nest single_bytes = {
        .size = 1, .extent = 1, .top = {.stride = 1, .count = 1, .size = 1}};
    const struct loop_nest *items = layout ? layout : &single_bytes;
    return (struct typed_items){(char *)addr, items->size ? bytes / items->size : 0, items};
}

int typed_buf_receive(const struct typed_buf *buf, const struct engine_part *from)
{
    size_t room = typed_buf_bytes(buf);
    if (from->bytes > room)
        return MPI_ERR_TRUNCATE;
    if (!buf->type.layout && !from->layout) {
        if (from->bytes && buf->addr != from->data)
            onespace_copy(buf->addr, from->data, from->bytes);
        return MPI_SUCCESS;
    }
    struct typed_items to = side_of(buf->addr, room, buf->type.layout);
    struct typed_items source = side_of(from->data, from->bytes, from->layout);
    return items_copy(&to, &source);
}

int typed_buf_pack(const struct typed_buf *buf, void *to)
{
    struct typed_buf packed = typed_buf_of_bytes(to, typed_buf_bytes(buf));
    return typed_buf_copy(&packed, buf);
}

/* ---- Operands ---- */

/* Where the bytes of items lie, relative to the address of the first. */
struct span {
    int64_t low, high;
};

/* The bytes of `items` items, and their span; an extent may be negative. -1: more than any memory.
 */
static int64_t span_of_items(struct span *span, int64_t extent, size_t items)
{
    int64_t reach, bytes;
    if (__builtin_mul_overflow((int64_t)(items - 1), extent, &reach))
        return -1;
    *(reach < 0 ? &span->low : &span->high) += reach;
    return __builtin_sub_overflow(span->high, span->low, &bytes) || bytes > INT64_MAX / 4 ? -1
                                                                                          : bytes;
}

static size_t items_that_fit(const struct span *span, int64_t extent)
{
    int64_t step = extent < 0 ? -extent : extent, item = span->high - span->low;
    return item > OPERAND_BUF_BYTES ? 0
           : step == 0              ? SIZE_MAX
                                    : (size_t)((OPERAND_BUF_BYTES - item) / step) + 1;
}

/* The lowest aligned address of an item whose bytes begin at `memory` or above. */
static char *first_item(const char *memory, int64_t low)
{
    uintptr_t item = (uintptr_t)memory - (uintptr_t)low;
    return (char *)((item + OPERAND_ALIGN - 1) & -(uintptr_t)OPERAND_ALIGN);
}

int operand_bufs_init(struct operand_bufs *operands, struct pack_bufs *bufs, MPI_Datatype datatype,
                      const struct item_layout *type, size_t items, size_t min_items)
{
    MPI_Aint low = 0, extent = (MPI_Aint)type->size;
    operands->memory = NULL;
    int result = type->layout ? pmpi()->Type_get_true_extent(datatype, &low, &extent) : MPI_SUCCESS;
    if (result != MPI_SUCCESS)
        return result;
    struct span span = {low, (int64_t)low + extent};
    size_t fit = items_that_fit(&span, type->extent);
    operands->items = items < fit ? items : fit > min_items ? fit : min_items;
    int64_t bytes = span_of_items(&span, type->extent, operands->items);
    if (bytes < 0)
        return MPI_ERR_NO_MEM;
    char *memory = bufs ? bufs->operands : NULL;
    size_t step = ((size_t)bytes + 2 * OPERAND_ALIGN - 1) & -(size_t)OPERAND_ALIGN;
    if (!memory || 2 * step > sizeof(bufs->operands))
        memory = operands->memory = malloc(2 * step);
    if (!memory)
        return MPI_ERR_NO_MEM;
    operands->sum = first_item(memory, span.low);
    operands->next = operands->sum + step;
    return MPI_SUCCESS;
}

void operand_bufs_free(struct operand_bufs *operands)
{
    free(operands->memory);
}
