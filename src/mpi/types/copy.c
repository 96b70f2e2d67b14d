/* src/mpi/types/copy.c: walks along two layouts, and copies from one to the other. */
#include "mpi/types/types.h"

#include <stdlib.h>
#include <string.h>

#include "onespace/sync/copy.h"

/* ---- Walking ---- */

enum { FEW = 8 }; /* nested loops; more need memory */

struct frame {
    const struct loop *loop;
    const struct loop *first, *next, *last; /* children; `last` is behind them */
    size_t left;                            /* repetitions, with this one */
    char *base;                             /* of this repetition */
};

/* A place in the data of one side. */
struct cursor {
    const struct loop *loops;
    struct loop top, item; /* all items; `item` is the child of `top` when that has a new one */
    struct frame *frames, few[FEW];
    uint32_t depth; /* frames in use */
    /* The runs here: `count` of them, 0 at the end; `done` bytes of the first are behind. */
    char *run;
    size_t size, count, done;
    int64_t stride;
};

static inline void push(struct cursor *cursor, const struct loop *loop, const struct loop *children,
                        char *base)
{
    cursor->frames[cursor->depth++] = (struct frame){
        loop, children, children, children + loop->children, loop->count, base + loop->offset};
}

static inline void set_runs(struct cursor *cursor, const struct loop *loop, char *base)
{
    cursor->run = base + loop->offset;
    cursor->size = loop->size;
    cursor->count = loop->count;
    cursor->stride = loop->stride;
    cursor->done = 0;
}

/* Goes on to the next runs. */
static inline void next_runs(struct cursor *cursor)
{
    while (cursor->depth) {
        struct frame *frame = &cursor->frames[cursor->depth - 1];
        if (frame->next == frame->last) {
            frame->next = frame->first;
            frame->base += frame->loop->stride;
            if (--frame->left == 0) {
                cursor->depth--;
                continue;
            }
        }
        const struct loop *child = frame->next++;
        if (!child->children) {
            set_runs(cursor, child, frame->base);
            return;
        }
        push(cursor, child, &cursor->loops[child->child], frame->base);
    }
}

static int begin(struct cursor *cursor, const struct typed_items *side)
{
    const struct loop_nest *nest = side->nest;
    cursor->loops = nest->loops;
    cursor->top = nest->top;
    cursor->depth = 0;
    cursor->count = 0;
    int has_item = !loop_repeat(&cursor->top, side->items, nest->extent);
    if (has_item) {
        cursor->item = nest->top;
        cursor->top = (struct loop){.stride = nest->extent,
                                    .count = side->items,
                                    .children = 1,
                                    .depth = nest->top.depth + 1};
    }
    cursor->frames = cursor->few;
    if (cursor->top.depth > FEW &&
        !(cursor->frames = malloc(cursor->top.depth * sizeof(struct frame))))
        return MPI_ERR_NO_MEM;
    if (cursor->top.count == 0)
        return MPI_SUCCESS;
    if (!cursor->top.children)
        set_runs(cursor, &cursor->top, side->address);
    else {
        push(cursor, &cursor->top, has_item ? &cursor->item : &cursor->loops[cursor->top.child],
             side->address);
        next_runs(cursor);
    }
    return MPI_SUCCESS;
}

static void end(struct cursor *cursor)
{
    if (cursor->frames != cursor->few)
        free(cursor->frames);
}

static size_t left_of(const struct cursor *cursor)
{
    return cursor->size - cursor->done;
}

/* Whether blocks of the size, which the run has left, are whole runs. */
static int is_whole_run(const struct cursor *cursor, size_t size)
{
    return size == cursor->size;
}

/* How many such blocks are here at equal distances, if that is less than `most`. No division for a
 * single block: it would cost as much as all the rest. */
static inline size_t blocks_here(const struct cursor *cursor, size_t size, size_t most,
                                 int64_t *stride)
{
    int is_whole = is_whole_run(cursor, size);
    *stride = is_whole ? cursor->stride : (int64_t)size;
    if (most == 1)
        return 1;
    size_t count = is_whole ? cursor->count : left_of(cursor) / size;
    return count < most ? count : most;
}

static inline void advance(struct cursor *cursor, size_t size, size_t count)
{
    if (!is_whole_run(cursor, size)) {
        cursor->done += size * count;
        if (cursor->done < cursor->size)
            return;
        count = 1; /* blocks do not cross the end of a run */
    }
    cursor->done = 0;
    cursor->run += (int64_t)count * cursor->stride;
    cursor->count -= count;
    if (cursor->count == 0)
        next_runs(cursor);
}

static void walk_both(struct cursor *to, struct cursor *from, items_visitor *function,
                      void *context)
{
    while (to->count && from->count) {
        struct strided_blocks blocks = {.to = to->run + to->done, .from = from->run + from->done};
        size_t left = left_of(to), other = left_of(from), size = left < other ? left : other;
        size_t most = is_whole_run(to, size)     ? to->count
                      : is_whole_run(from, size) ? from->count
                                                 : SIZE_MAX;
        most = blocks_here(to, size, most, &blocks.to_stride);
        most = blocks_here(from, size, most, &blocks.from_stride);
        blocks.size = size;
        blocks.count = most;
        if (function(context, &blocks))
            return;
        advance(to, size, most);
        advance(from, size, most);
    }
}

int items_walk(const struct typed_items *to, const struct typed_items *from,
               items_visitor *function, void *context)
{
    struct cursor sink, source;
    int result = begin(&sink, to);
    if (result != MPI_SUCCESS)
        return result;
    result = begin(&source, from);
    if (result == MPI_SUCCESS) {
        walk_both(&sink, &source, function, context);
        end(&source);
    }
    end(&sink);
    return result;
}

/* ---- Copying ---- */

/* copies between two sides of a transfer.
 *
 * Nearly always one side is a single run, or both have the same layout; then the loops of one
 * layout tell all. Otherwise items_walk() goes along both. */

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
static inline __attribute__((always_inline)) void copy_equal(const struct strided_blocks *blocks,
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

static inline void copy_others(const struct strided_blocks *blocks)
{
    char *to = blocks->to;
    const char *from = blocks->from;
    for (size_t i = 0; i < blocks->count; i++) {
        copy_one(to, from, blocks->size);
        to += blocks->to_stride;
        from += blocks->from_stride;
    }
}

static inline void copy(const struct strided_blocks *blocks)
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
    struct strided_blocks blocks = {.size = runs->size, .count = runs->count};
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

static void move_items(struct move *move, const struct typed_items *side)
{
    struct loop all = side->nest->top;
    move->loops = side->nest->loops;
    if (loop_repeat(&all, side->items, side->nest->extent)) {
        move_loop(move, &all, side->address);
        return;
    }
    for (size_t i = 0; i < side->items; i++)
        move_loop(move, &side->nest->top, side->address + (int64_t)i * side->nest->extent);
}

/* The address of all data of a side that is a single run; else NULL. */
static char *single_run(const struct typed_items *side)
{
    struct loop all = side->nest->top;
    int is_single =
        !all.children && loop_repeat(&all, side->items, side->nest->extent) && all.count == 1;
    return is_single ? side->address + all.offset : NULL;
}

static int copy_function(void *context, const struct strided_blocks *blocks)
{
    (void)context;
    copy(blocks);
    return 0;
}

/* Types without nested loops are often the same: pairs, vectors, the same type made twice. */
static int are_alike(const struct loop_nest *one, const struct loop_nest *other)
{
    const struct loop *a = &one->top, *b = &other->top;
    return one == other ||
           (!a->children && !b->children && a->offset == b->offset && a->stride == b->stride &&
            a->count == b->count && a->size == b->size && one->extent == other->extent);
}

int items_copy(const struct typed_items *to, const struct typed_items *from)
{
    struct move move = {.way = ALIKE, .further = from->address - to->address};
    int is_alike = to->items == from->items && are_alike(to->nest, from->nest);
    int has_same_size = to->items * to->nest->size == from->items * from->nest->size;
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
    return items_walk(to, from, copy_function, NULL);
}
