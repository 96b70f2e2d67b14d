/* src/mpi/types/walk_copy.c: copies between two sides of a transfer.
 *
 * Nearly always one side is a single run, or both have the same layout; then the loops of one
 * layout tell all. Otherwise walk() goes along both. */
#include <string.h>

#include "mpi/types/walk.h"
#include "onespace/sync/copy.h"

static inline __attribute__((always_inline)) void part(char *to, const char *from, size_t at)
{
    memcpy(to + at, from + at, 16);
}

/* A block of up to 128 bytes: loads and stores of 16 bytes, of which the last overlap others. For
 * such sizes a call of memcpy takes longer than the copy. */
static inline void copy_short(char *to, const char *from, size_t size)
{
    if (size < 8) {
        memcpy(to, from, size);
        return;
    }
    if (size < 16) {
        memcpy(to, from, 8);
        memcpy(to + size - 8, from + size - 8, 8);
        return;
    }
    if (size > 64) {
        part(to, from, 32);
        part(to, from, 48);
        part(to, from, size - 64);
        part(to, from, size - 48);
    }
    if (size > 32) {
        part(to, from, 16);
        part(to, from, size - 32);
    }
    part(to, from, 0);
    part(to, from, size - 16);
}

/* The compiler makes one load and one store of each block: `size` is a constant. */
static inline __attribute__((always_inline)) void copy_equal(const struct blocks *blocks,
                                                             size_t size)
{
    char *to = blocks->to;
    const char *from = blocks->from;
    for (size_t i = 0; i < blocks->count; i++) {
        memcpy(to, from, size);
        to += blocks->to_stride;
        from += blocks->from_stride;
    }
}

static inline void copy_one(char *to, const char *from, size_t size)
{
    enum { SHORT = 128 };
    if (size <= SHORT)
        copy_short(to, from, size);
    else
        onespace_copy(to, from, size);
}

static inline void copy_others(const struct blocks *blocks)
{
    char *to = blocks->to;
    const char *from = blocks->from;
    for (size_t i = 0; i < blocks->count; i++) {
        copy_one(to, from, blocks->size);
        to += blocks->to_stride;
        from += blocks->from_stride;
    }
}

static inline void copy(const struct blocks *blocks)
{
    switch (blocks->size) {
    case 4:
        copy_equal(blocks, 4);
        break;
    case 8:
        copy_equal(blocks, 8);
        break;
    case 16:
        copy_equal(blocks, 16);
        break;
    case 32:
        copy_equal(blocks, 32);
        break;
    default:
        copy_others(blocks);
    }
}

/* The side whose loops are followed, and the other one. */
struct move {
    const struct loop *loops;
    enum { ALIKE, SCATTER, GATHER } way;
    char *packed;      /* the place in the single run: from it (SCATTER), or into it (GATHER) */
    ptrdiff_t further; /* ALIKE: the source lies so many bytes behind the target */
};

static inline void move_runs(struct move *move, const struct loop *runs, char *first)
{
    struct blocks blocks = {.size = runs->size, .count = runs->count};
    int64_t size = (int64_t)runs->size;
    blocks.to = move->way == GATHER ? move->packed : first;
    blocks.to_stride = move->way == GATHER ? size : runs->stride;
    blocks.from = move->way == SCATTER ? move->packed
                  : move->way == ALIKE ? first + move->further
                                       : first;
    blocks.from_stride = move->way == SCATTER ? size : runs->stride;
    if (move->way != ALIKE)
        move->packed += runs->size * runs->count;
    copy(&blocks);
}

static inline int is_one_run(const struct loop *loop)
{
    return loop->count == 1 && !loop->children;
}

/* Children that are single runs, from one on, as in a type of many blocks; the first that is
 * something else, or `end`. */
static __attribute__((noinline)) const struct loop *move_single_runs(const struct move *move,
                                                                     const struct loop *child,
                                                                     const struct loop *end,
                                                                     char *at)
{
    ptrdiff_t further = move->further;
    for (; child != end && is_one_run(child); child++)
        copy_one(at + child->offset, at + child->offset + further, child->size);
    return child;
}

static void move_loop(struct move *move, const struct loop *loop, char *base)
{
    char *at = base + loop->offset;
    if (!loop->children) {
        move_runs(move, loop, at);
        return;
    }
    const struct loop *first = &move->loops[loop->child], *last = first + loop->children;
    for (size_t left = loop->count; left; left--, at += loop->stride)
        for (const struct loop *child = first; child != last; child++) {
            if (move->way == ALIKE && is_one_run(child) &&
                (child = move_single_runs(move, child, last, at)) == last)
                break;
            if (child->children)
                move_loop(move, child, at);
            else
                move_runs(move, child, at + child->offset);
        }
}

static void move_items(struct move *move, const struct side *side)
{
    struct loop all = side->layout->top;
    move->loops = side->layout->loops;
    if (loop_repeat(&all, side->items, side->layout->extent)) {
        move_loop(move, &all, side->address);
        return;
    }
    for (size_t i = 0; i < side->items; i++)
        move_loop(move, &side->layout->top, side->address + (int64_t)i * side->layout->extent);
}

/* The address of all data of a side that is a single run; else NULL. */
static char *single_run(const struct side *side)
{
    struct loop all = side->layout->top;
    int is_single =
        !all.children && loop_repeat(&all, side->items, side->layout->extent) && all.count == 1;
    return is_single ? side->address + all.offset : NULL;
}

static int copy_function(void *context, const struct blocks *blocks)
{
    (void)context;
    copy(blocks);
    return 0;
}

/* Types without nested loops are often the same: pairs, vectors, the same type made twice. */
static int are_alike(const struct layout *one, const struct layout *other)
{
    const struct loop *a = &one->top, *b = &other->top;
    return one == other ||
           (!a->children && !b->children && a->offset == b->offset && a->stride == b->stride &&
            a->count == b->count && a->size == b->size && one->extent == other->extent);
}

int walk_copy(const struct side *to, const struct side *from)
{
    struct move move = {.way = ALIKE, .further = from->address - to->address};
    int is_alike = to->items == from->items && are_alike(to->layout, from->layout);
    int has_same_size = to->items * to->layout->size == from->items * from->layout->size;
    if (is_alike) {
        move_items(&move, to);
        return MPI_SUCCESS;
    }
    if (has_same_size && (move.packed = single_run(from)) != NULL) {
        move.way = SCATTER;
        move_items(&move, to);
        return MPI_SUCCESS;
    }
    if (has_same_size && (move.packed = single_run(to)) != NULL) {
        move.way = GATHER;
        move_items(&move, from);
        return MPI_SUCCESS;
    }
    return walk(to, from, copy_function, NULL);
}
