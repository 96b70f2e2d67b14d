/* src/mpi/rma/accumulate.c: the accumulating functions. */
#include "mpi/rma/rma.h"

#include <string.h>

#include "onespace/sync/copy.h"

/* ---- Exclusion of updates ---- */

#define ALL_STRIPES ((1u << STRIPE_COUNT) - 1)

/* One rank at a time updates a cache line. Cache lines that are a multiple of STRIPE_COUNT lines
 * apart form a stripe, whose word names the rank that updates them. An update of few stripes
 * acquires their words in ascending order. An update of many stripes acquires the one word for all
 * of them, then waits until it has seen each stripe free. A rank that has acquired stripes checks
 * the word for all and backs off if it is owned. Each side writes before it reads, sequentially
 * consistent, so at least one sees the other (Dekker). tests/models/updates.pml checks it. */

enum { STRIPES_MAX = 8 }; /* acquiring more words than these costs more than reading all */

/* Parts that overlap in a file share the words of rank 0: there a byte has the same offset in its
 * page in all mappings of all processes. */
static struct rma_part *words_of(struct window *window, int target_rank)
{
    return &window->rma_shared->rank[window->overlaps ? 0 : target_rank];
}

/* One bit for each stripe that the bytes touch; ALL_STRIPES if they touch more than STRIPES_MAX. */
static uint32_t stripes_of(const char *address, size_t size)
{
    uintptr_t first = (uintptr_t)address / CACHE_LINE_BYTES;
    uintptr_t last = ((uintptr_t)address + (size ? size - 1 : 0)) / CACHE_LINE_BYTES;
    uint32_t lines = 0;
    if (last - first >= STRIPES_MAX)
        return ALL_STRIPES;
    for (uintptr_t line = first; line <= last; line++)
        lines |= 1u << (line % STRIPE_COUNT);
    return lines;
}

/* The stripes in `lines` and those of more bytes. */
static uint32_t stripes_add(uint32_t lines, const char *address, size_t size)
{
    lines |= stripes_of(address, size);
    return __builtin_popcount(lines) > STRIPES_MAX ? ALL_STRIPES : lines;
}

/* Acquire: pairs with the previous owner's update_lock_release. */
static int update_lock_acquire(struct window *window, struct update_lock *lock)
{
    struct wait wait = window_wait(window);
    for (;;) {
        uint32_t free_word = 0, self = (uint32_t)window->group->rank + 1;
        if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&lock->owner, &free_word, self,
                                                    memory_order_seq_cst, memory_order_relaxed))
            return MPI_SUCCESS;
        int result = wait_round(&wait);
        if (result != MPI_SUCCESS)
            return result;
    }
}

static void update_lock_release(struct update_lock *lock)
{
    atomic_store_explicit(&lock->owner, 0, memory_order_release);
}

static int is_free(struct update_lock *lock)
{
    return atomic_load_explicit(&lock->owner, memory_order_seq_cst) == 0;
}

static int await_free(struct window *window, struct update_lock *lock)
{
    struct wait wait = window_wait(window);
    int result = MPI_SUCCESS;
    while (result == MPI_SUCCESS && !is_free(lock))
        result = wait_round(&wait);
    return result;
}

static int acquire_all(struct window *window, struct rma_part *words)
{
    int result = update_lock_acquire(window, &words->all);
    if (result != MPI_SUCCESS)
        return result;
    for (int i = 0; i < STRIPE_COUNT && result == MPI_SUCCESS; i++)
        result = await_free(window, &words->stripes[i]);
    if (result != MPI_SUCCESS)
        update_lock_release(&words->all);
    return result;
}

static void release_stripes(struct rma_part *words, uint32_t lines)
{
    for (; lines; lines &= lines - 1)
        update_lock_release(&words->stripes[__builtin_ctz(lines)]);
}

static int acquire_stripes(struct window *window, struct rma_part *words, uint32_t lines)
{
    for (uint32_t left = lines; left; left &= left - 1) {
        int result = update_lock_acquire(window, &words->stripes[__builtin_ctz(left)]);
        if (result != MPI_SUCCESS) {
            release_stripes(words, lines & ((left & -left) - 1));
            return result;
        }
    }
    return MPI_SUCCESS;
}

/* Waits for the owners of the stripes. An error when a rank has died: then no stripe is owned. */
static int stripes_acquire(struct window *window, int target_rank, uint32_t lines)
{
    struct rma_part *words = words_of(window, target_rank);
    if (lines == ALL_STRIPES)
        return acquire_all(window, words);
    for (;;) {
        int result = acquire_stripes(window, words, lines);
        if (result != MPI_SUCCESS || is_free(&words->all))
            return result;
        release_stripes(words, lines);
        if ((result = await_free(window, &words->all)) != MPI_SUCCESS)
            return result;
    }
}

static void stripes_release(struct window *window, int target_rank, uint32_t lines)
{
    struct rma_part *words = words_of(window, target_rank);
    if (lines == ALL_STRIPES)
        update_lock_release(&words->all);
    else
        release_stripes(words, lines);
}

/* ---- Accumulating ----
 *
 * All accumulating functions, on all types, update elements while they own the target's stripes, so
 * they are atomic with respect to one another, element by element and call by call. They call MPI
 * (for datatypes) only before they acquire the stripes or after they release them. */

/* ---- Contiguous elements of one predefined type without gaps on all sides ---- */

/* origin NULL: only fetch; result NULL: nothing is fetched; reduce NULL: replace. */
static void update_row(char *address, const char *origin, char *result, size_t count, size_t size,
                       reduce_function *reduce)
{
    if (result)
        onespace_copy(result, address, size);
    if (origin && reduce)
        reduce(address, origin, count);
    else if (origin)
        onespace_copy(address, origin, size);
}

static int accumulate_row(struct window *window, const struct buf_desc *origin,
                          const struct buf_desc *result, int target_rank,
                          const struct buf_desc *target, const struct predefined_type *element,
                          reduce_function *reduce)
{
    size_t count = (size_t)target->count, size = count * element->size;
    uint32_t lines = stripes_of(target->address, size);
    int error = stripes_acquire(window, target_rank, lines);
    if (error != MPI_SUCCESS)
        return error;
    update_row(target->address, origin ? origin->address : NULL, result ? result->address : NULL,
               count, size, reduce);
    stripes_release(window, target_rank, lines);
    return MPI_SUCCESS;
}

/* ---- Any types ---- */

struct reduction {
    reduce_function *reduce;
    size_t extent; /* of an element */
};

static int reduce_blocks(void *context, const struct strided_blocks *blocks)
{
    const struct reduction *reduction = context;
    char *to = blocks->to;
    const char *from = blocks->from;
    size_t count = blocks->size / reduction->extent;
    for (size_t i = 0; i < blocks->count; i++) {
        reduction->reduce(to, from, count);
        to += blocks->to_stride;
        from += blocks->from_stride;
    }
    return 0;
}

/* The items of one buffer. `whole`: with the gaps in elements, for functions that reduce whole
 * elements. `bytes`: without, for copies: what lies in a gap, or behind the last element's bytes,
 * may be the program's. */
struct side {
    struct typed_items whole, bytes;
};

static int find_items(const struct buf_desc *transfer, struct side *side,
                      const struct predefined_type **element)
{
    const struct type_layout *layout;
    int error = type_layout_find_committed(transfer->type, &layout);
    if (error != MPI_SUCCESS)
        return error;
    *element = layout->element;
    side->whole = (struct typed_items){transfer->address, (size_t)transfer->count, &layout->whole};
    side->bytes = (struct typed_items){transfer->address, (size_t)transfer->count, &layout->bytes};
    return MPI_SUCCESS;
}

/* The items of the origin or result buffer, whose elements must match the target's. */
static int find_matching_items(const struct buf_desc *transfer, struct side *side,
                               const struct predefined_type *element)
{
    const struct predefined_type *other = NULL;
    int error = find_items(transfer, side, &other);
    if (error != MPI_SUCCESS)
        return error;
    return other && other->size == element->size && other->extent == element->extent ? MPI_SUCCESS
                                                                                     : MPI_ERR_TYPE;
}

static size_t bytes_of(const struct side *side)
{
    return items_size((MPI_Count)side->bytes.items, side->bytes.nest->size);
}

/* Adds the stripes of the target's lines, until they are all. */
static int add_lines(void *context, const struct strided_blocks *blocks)
{
    uint32_t *lines = context;
    const char *to = blocks->to;
    for (size_t i = 0; i < blocks->count && *lines != ALL_STRIPES; i++) {
        *lines = stripes_add(*lines, to, blocks->size);
        to += blocks->to_stride;
    }
    return *lines == ALL_STRIPES;
}

/* With the lines acquired. */
static int update_items(const struct side *target, const struct side *origin,
                        const struct side *result, struct reduction *reduction)
{
    int error = MPI_SUCCESS;
    if (result)
        error = items_copy(&result->bytes, &target->bytes);
    if (error == MPI_SUCCESS && origin && reduction->reduce)
        error = items_walk(&target->whole, &origin->whole, reduce_blocks, reduction);
    else if (error == MPI_SUCCESS && origin)
        error = items_copy(&target->bytes, &origin->bytes);
    return error;
}

/* origin NULL: only fetch; result NULL: nothing is fetched. */
static int accumulate_items(struct window *window, const struct buf_desc *origin,
                            const struct buf_desc *result, int target_rank,
                            const struct buf_desc *transfer, const struct predefined_type *element,
                            reduce_function *reduce)
{
    struct side target, source, sink;
    struct reduction reduction = {reduce, element->extent};
    uint32_t lines = 0;
    int error = find_items(transfer, &target, &element);
    if (error == MPI_SUCCESS && origin)
        error = find_matching_items(origin, &source, element);
    if (error == MPI_SUCCESS && result)
        error = find_matching_items(result, &sink, element);
    if (error != MPI_SUCCESS)
        return error;
    if ((origin && bytes_of(&source) > bytes_of(&target)) ||
        (result && bytes_of(&sink) < bytes_of(&target)))
        return MPI_ERR_TRUNCATE;
    if ((error = items_walk(&target.whole, &target.whole, add_lines, &lines)) != MPI_SUCCESS ||
        (error = stripes_acquire(window, target_rank, lines)) != MPI_SUCCESS)
        return error;
    error = update_items(&target, origin ? &source : NULL, result ? &sink : NULL, &reduction);
    stripes_release(window, target_rank, lines);
    return error;
}

/* ---- The calls ---- */

/* The element type of a target; NULL: *error. */
static const struct predefined_type *element_of(MPI_Datatype type, int *error)
{
    const struct predefined_type *predefined = predefined_type_known(type);
    if (predefined)
        return predefined;
    const struct type_layout *layout;
    *error = type_layout_find(type, &layout);
    if (*error != MPI_SUCCESS)
        return NULL;
    if (!layout->element)
        *error = MPI_ERR_TYPE; /* elements of several types, or none */
    return layout->element;
}

static int is_row(const struct buf_desc *side, const struct buf_desc *target)
{
    return !side || (side->type == target->type && side->count >= target->count);
}

static int accumulate(struct window *window, const struct buf_desc *origin,
                      const struct buf_desc *result, int target_rank, const struct buf_desc *target,
                      MPI_Op op)
{
    int error = MPI_SUCCESS;
    const struct predefined_type *element = element_of(target->type, &error);
    reduce_function *reduce = NULL;
    if (!element)
        return error;
    if (op == MPI_NO_OP && !result)
        return MPI_ERR_OP;
    rma_begin_access(window, target_rank, RMA_ACCUMULATE, op == MPI_NO_OP ? result : origin);
    if (result)
        rma_note_get(window);
    if (op == MPI_NO_OP)
        origin = NULL;
    else if (op != MPI_REPLACE && !(reduce = reduce_function_find(op, element)))
        return MPI_ERR_OP;
    int is_plain = element->type == target->type && predefined_type_is_dense(element) &&
                   is_row(origin, target) && is_row(result, target);
    error = (is_plain ? accumulate_row : accumulate_items)(window, origin, result, target_rank,
                                                           target, element, reduce);
    rma_end_store(window, target_rank);
    return error;
}

static int find_bounds(MPI_Datatype type, MPI_Count count, int64_t *lower, int64_t *upper)
{
    const struct predefined_type *predefined = predefined_type_known(type);
    const struct type_layout *layout;
    if (predefined_type_is_dense(predefined))
        return __builtin_mul_overflow((int64_t)count, (int64_t)predefined->size, upper)
                   ? MPI_ERR_COUNT
                   : MPI_SUCCESS;
    int error = type_layout_find(type, &layout);
    return error == MPI_SUCCESS ? type_layout_bounds(layout, count, lower, upper) : error;
}

/* MPI_NO_OP ignores the origin. `result` NULL: nothing is fetched. */
static int has_negative_count(const struct buf_desc *origin, const struct buf_desc *result,
                              MPI_Count count, MPI_Op op)
{
    return count < 0 || (op != MPI_NO_OP && origin->count < 0) || (result && result->count < 0);
}

static int accumulate_host(struct window *window, const struct buf_desc *origin,
                           const struct buf_desc *result, int target_rank, MPI_Aint target_disp,
                           MPI_Count count, MPI_Datatype type, MPI_Op op)
{
    if (has_negative_count(origin, result, count, op))
        return MPI_ERR_COUNT;
    if (target_rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    int64_t lower = 0, upper;
    int error = find_bounds(type, count, &lower, &upper);
    if (error != MPI_SUCCESS)
        return error;
    struct buf_desc target = {
        rma_target_address(window, target_rank, target_disp, lower, upper, &error), count, type};
    return error == MPI_SUCCESS ? accumulate(window, origin, result, target_rank, &target, op)
                                : error;
}

static int accumulate_any_memory(struct window *window, const struct buf_desc *origin,
                                 const struct buf_desc *result, int target_rank,
                                 MPI_Aint target_disp, MPI_Count count, MPI_Datatype type,
                                 MPI_Op op)
{
    struct buf_desc given = *origin, fetched = result ? *result : (struct buf_desc){0};
    struct gpu_copy source = {0}, sink = {0};
    int has_origin = op != MPI_NO_OP && origin->count > 0, error = MPI_SUCCESS;
    if (target_rank == MPI_PROC_NULL || has_negative_count(origin, result, count, op))
        return accumulate_host(window, origin, result, target_rank, target_disp, count, type, op);
    if (has_origin)
        error = gpu_copy_in(&given, &source);
    if (error == MPI_SUCCESS && result)
        error = gpu_copy_in(&fetched, &sink);
    if (error == MPI_SUCCESS)
        error = accumulate_host(window, &given, result ? &fetched : NULL, target_rank, target_disp,
                                count, type, op);
    int returned = gpu_copy_out(&sink, error == MPI_SUCCESS);
    (void)gpu_copy_out(&source, 0);
    return error != MPI_SUCCESS ? error : returned;
}

int rma_accumulate(struct window *window, const struct buf_desc *origin,
                   const struct buf_desc *result, int target_rank, MPI_Aint target_disp,
                   MPI_Count count, MPI_Datatype type, MPI_Op op)
{
    return (gpu_is_possible() ? accumulate_any_memory : accumulate_host)(
        window, origin, result, target_rank, target_disp, count, type, op);
}

int rma_fetch_and_op(struct window *window, const struct buf_desc *origin,
                     const struct buf_desc *result, int target_rank, MPI_Aint target_disp,
                     MPI_Op op)
{
    if (target_rank != MPI_PROC_NULL && !predefined_type_of(origin->type))
        return MPI_ERR_TYPE;
    return rma_accumulate(window, origin, result, target_rank, target_disp, 1, origin->type, op);
}

/* MPICH takes integers, truth values and bytes, Open MPI any type. */
static int may_swap(const struct predefined_type *element)
{
#ifdef OPEN_MPI
    return predefined_type_is_dense(element);
#else
    return element && (element->class == TYPE_SIGNED || element->class == TYPE_UNSIGNED) &&
           element->type != MPI_PACKED;
#endif
}

static inline void swap_if_equal(char *address, const void *origin, const void *compare,
                                 void *result, size_t size)
{
    memcpy(result, address, size);
    if (memcmp(address, compare, size) == 0)
        memcpy(address, origin, size);
}

static int swap_host(struct window *window, const void *origin, const void *compare, void *result,
                     MPI_Datatype type, int target_rank, MPI_Aint target_disp)
{
    int error = MPI_SUCCESS;
    if (target_rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    const struct predefined_type *element = predefined_type_of(type);
    if (!may_swap(element))
        return MPI_ERR_TYPE;
    char *address =
        rma_target_address(window, target_rank, target_disp, 0, (int64_t)element->size, &error);
    if (error != MPI_SUCCESS)
        return error;
    struct buf_desc one = {(void *)origin, 1, type};
    rma_begin_access(window, target_rank, RMA_ACCUMULATE, &one);
    rma_note_get(window);
    uint32_t lines = stripes_of(address, element->size);
    if ((error = stripes_acquire(window, target_rank, lines)) != MPI_SUCCESS)
        return error;
    if (element->size ==
        sizeof(uint64_t)) /* by far the most frequent size: one load and one store */
        swap_if_equal(address, origin, compare, result, sizeof(uint64_t));
    else
        swap_if_equal(address, origin, compare, result, element->size);
    stripes_release(window, target_rank, lines);
    rma_end_store(window, target_rank);
    return MPI_SUCCESS;
}

static int swap_any_memory(struct window *window, const void *origin, const void *compare,
                           void *result, MPI_Datatype type, int target_rank, MPI_Aint target_disp)
{
    struct buf_desc all[3] = {
        {(void *)origin, 1, type}, {(void *)compare, 1, type}, {result, 1, type}};
    struct gpu_copy copies[3] = {0};
    int error = MPI_SUCCESS;
    if (target_rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    for (int i = 0; i < 3 && error == MPI_SUCCESS; i++)
        error = gpu_copy_in(&all[i], &copies[i]);
    if (error == MPI_SUCCESS)
        error = swap_host(window, all[0].address, all[1].address, all[2].address, type, target_rank,
                          target_disp);
    int returned = gpu_copy_out(&copies[2], error == MPI_SUCCESS);
    (void)gpu_copy_out(&copies[0], 0);
    (void)gpu_copy_out(&copies[1], 0);
    return error != MPI_SUCCESS ? error : returned;
}

int rma_compare_and_swap(struct window *window, const void *origin, const void *compare,
                         void *result, MPI_Datatype type, int target_rank, MPI_Aint target_disp)
{
    return (gpu_is_possible() ? swap_any_memory : swap_host)(window, origin, compare, result, type,
                                                             target_rank, target_disp);
}
