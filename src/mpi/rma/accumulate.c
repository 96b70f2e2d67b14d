/* src/mpi/rma/accumulate.c: the accumulating functions.
 *
 * All of them, on all types, update elements while they own the target's cache lines (update.c), so
 * they are atomic with respect to one another, element by element and call by call. Whatever needs
 * MPI (datatypes) is done before the lines are acquired or after they are released. */
#include <stdlib.h>
#include <string.h>

#include "mpi/rma/count.h"
#include "mpi/rma/update.h"
#include "mpi/types/reduce.h"

/* The target's elements in one call. */
struct target {
    char *address;
    MPI_Aint extent; /* of an item */
    size_t items;
    size_t per_item;  /* elements */
    int64_t *offsets; /* of the elements of an item; NULL: one element at 0 */
    const struct basic *element;
};

static int find_target(struct window *window, struct target *target, MPI_Count count,
                       MPI_Datatype type)
{
    const struct basic *basic = types_basic(type);
    MPI_Aint lower;
    target->items = (size_t)count;
    target->per_item = 1;
    target->element = basic ? basic : types_element(type);
    if (!target->element)
        return MPI_ERR_TYPE; /* elements of several types */
    if (basic) {
        target->extent = (MPI_Aint)basic->extent;
        return MPI_SUCCESS;
    }
    int result = real()->Type_get_extent(type, &lower, &target->extent);
    if (result != MPI_SUCCESS)
        return result;
    target->offsets = types_offsets(type, target->element, &target->per_item, window->self);
    return target->offsets ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

/* Contiguous elements of the target's type at `values`: the origin's, or room for what is fetched.
 * *owned: to be freed. */
static int find_values(const struct transfer *side, const struct target *target, char **values,
                       void **owned)
{
    const struct basic *element = target->element;
    size_t count = target->items * target->per_item;
    if (side->type == element->type && (size_t)side->count >= count) {
        *values = side->address;
        return MPI_SUCCESS;
    }
    *values = *owned = calloc(count + 1, element->extent);
    return *owned ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static struct transfer row_of(const struct target *target, char *values)
{
    return (struct transfer){values, (MPI_Count)(target->items * target->per_item),
                             target->element->type};
}

/* What is done to `count` contiguous elements. */
struct update {
    reduce_function *reduce; /* NULL: replace, when there are values */
    const char *values;      /* NULL: only fetch */
    char *fetched;           /* NULL: nothing is fetched */
    size_t extent;
};

static void update_row(const struct update *update, char *address, size_t first, size_t count)
{
    size_t at = first * update->extent, size = count * update->extent;
    if (update->fetched)
        memcpy(update->fetched + at, address, size);
    if (update->values && update->reduce)
        update->reduce(address, update->values + at, count);
    else if (update->values)
        memcpy(address, update->values + at, size);
}

static void update_all(const struct update *update, const struct target *target)
{
    if (!target->offsets) {
        update_row(update, target->address, 0, target->items);
        return;
    }
    for (size_t item = 0; item < target->items; item++)
        for (size_t i = 0; i < target->per_item; i++)
            update_row(update,
                       target->address + (MPI_Aint)item * target->extent + target->offsets[i],
                       item * target->per_item + i, 1);
}

/* Once the target is known: makes origin and result contiguous, updates, and copies the result to
 * its place. */
static int accumulate(struct window *window, const struct transfer *origin,
                      const struct transfer *result, int rank, const struct target *target,
                      MPI_Op op)
{
    struct update update = {.extent = target->element->extent};
    char *values = NULL, *fetched = NULL;
    void *owned_values = NULL, *owned_fetched = NULL;
    int error = MPI_SUCCESS;
    if (op != MPI_REPLACE && op != MPI_NO_OP && !(update.reduce = reduce_find(op, target->element)))
        return MPI_ERR_OP;
    if (op != MPI_NO_OP) {
        error = find_values(origin, target, &values, &owned_values);
        struct transfer row = row_of(target, values);
        if (error == MPI_SUCCESS && owned_values)
            error = types_copy(&row, origin, window->self);
    }
    if (error == MPI_SUCCESS && result)
        error = find_values(result, target, &fetched, &owned_fetched);
    update.values = values;
    update.fetched = fetched;
    uint32_t lines = target->offsets ? DIRECT_ALL_LINES
                                     : direct_lines(target->address, target->items * update.extent);
    if (error == MPI_SUCCESS && (error = direct_acquire(window, rank, lines)) == MPI_SUCCESS) {
        update_all(&update, target);
        direct_release(window, rank, lines);
        struct transfer row = row_of(target, fetched);
        if (owned_fetched)
            error = types_copy(result, &row, window->self);
    }
    if (owned_values || owned_fetched) { /* small updates notice the cost of a call */
        free(owned_values);
        free(owned_fetched);
    }
    return error;
}

int direct_accumulate(struct window *window, const struct transfer *origin,
                      const struct transfer *result, int rank, MPI_Aint displacement,
                      MPI_Count count, MPI_Datatype type, MPI_Op op)
{
    int error = MPI_SUCCESS;
    struct target target = {0};
    if (count < 0 || origin->count < 0)
        return MPI_ERR_COUNT;
    if (rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    target.address = direct_target(window, rank, displacement, &error);
    if (error == MPI_SUCCESS)
        error = find_target(window, &target, count, type);
    if (error == MPI_SUCCESS)
        direct_count(window, rank, DIRECT_ACCUMULATE, op == MPI_NO_OP ? result : origin);
    if (error == MPI_SUCCESS)
        error = accumulate(window, origin, result, rank, &target, op);
    if (target.offsets)
        free(target.offsets);
    return error;
}

static inline void swap_if_equal(char *address, const void *origin, const void *compare,
                                 void *result, size_t size)
{
    memcpy(result, address, size);
    if (memcmp(address, compare, size) == 0)
        memcpy(address, origin, size);
}

int direct_compare_and_swap(struct window *window, const void *origin, const void *compare,
                            void *result, MPI_Datatype type, int rank, MPI_Aint displacement)
{
    int error = MPI_SUCCESS;
    if (rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    const struct basic *element = types_basic(type);
    char *address = direct_target(window, rank, displacement, &error);
    if (error != MPI_SUCCESS)
        return error;
    if (!types_is_dense(element))
        return MPI_ERR_TYPE;
    struct transfer one = {(void *)origin, 1, type};
    direct_count(window, rank, DIRECT_ACCUMULATE, &one);
    uint32_t lines = direct_lines(address, element->size);
    if ((error = direct_acquire(window, rank, lines)) != MPI_SUCCESS)
        return error;
    if (element->size ==
        sizeof(uint64_t)) /* by far the most frequent size: one load and one store */
        swap_if_equal(address, origin, compare, result, sizeof(uint64_t));
    else
        swap_if_equal(address, origin, compare, result, element->size);
    direct_release(window, rank, lines);
    return MPI_SUCCESS;
}
