/* src/mpi/types/copy.c: walks along two layouts, and copies from one to the other. */
#include "mpi/types/types.h"

#include <stdlib.h>
#include <string.h>

#include "onespace/sync/copy.h"

/* ---- Walking ---- */

enum { FRAMES_ON_STACK = 8 }; /* nested loops; more need memory */

struct frame {
    const struct loop *loop;
    const struct loop *first, *next, *last; /* children; `last` is after them */
    size_t left;                            /* repetitions, with this one */
    char *base;                             /* of this repetition */
};

/* A position in the data of one side. */
struct cursor {
    const struct loop *loops;
    struct loop top, item; /* all items; `item` is the child of `top` when that has a new one */
    struct frame *frames, stack[FRAMES_ON_STACK];
    uint32_t depth; /* frames in use */
    /* The current runs: `count` of them, 0 at the end; `done` bytes of the first are consumed. */
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

/* Advances to the next runs. */
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
    cursor->frames = cursor->stack;
    if (cursor->top.depth > FRAMES_ON_STACK &&
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
    if (cursor->frames != cursor->stack)
        free(cursor->frames);
}

static size_t bytes_left(const struct cursor *cursor)
{
    return cursor->size - cursor->done;
}

/* Whether blocks of the size, which the run has left, are whole runs. */
static int is_whole_run(const struct cursor *cursor, size_t size)
{
    return size == cursor->size;
}

/* How many such blocks follow at equal distances, at most `limit`. No division for a single block:
 * it would cost as much as everything else. */
static inline size_t count_blocks(const struct cursor *cursor, size_t size, size_t limit,
                                  int64_t *stride)
{
    int is_whole = is_whole_run(cursor, size);
    *stride = is_whole ? cursor->stride : (int64_t)size;
    if (limit == 1)
        return 1;
    size_t count = is_whole ? cursor->count : bytes_left(cursor) / size;
    return count < limit ? count : limit;
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
        size_t left = bytes_left(to), other = bytes_left(from), size = left < other ? left : other;
        size_t count = is_whole_run(to, size)     ? to->count
                       : is_whole_run(from, size) ? from->count
                                                  : SIZE_MAX;
        count = count_blocks(to, size, count, &blocks.to_stride);
        count = count_blocks(from, size, count, &blocks.from_stride);
        blocks.size = size;
        blocks.count = count;
        if (function(context, &blocks))
            return;
        advance(to, size, count);
        advance(from, size, count);
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

/* Nearly always one side is a single run, or both have the same layout; then the loops of one
 * layout tell all. Otherwise items_walk() goes along both. */

static inline __attribute__((always_inline)) void copy_16(char *to, const char *from, size_t at)
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
        copy_16(to, from, 32);
        copy_16(to, from, 48);
        copy_16(to, from, size - 64);
        copy_16(to, from, size - 48);
    }
    if (size > 32) {
        copy_16(to, from, 16);
        copy_16(to, from, size - 32);
    }
    copy_16(to, from, 0);
    copy_16(to, from, size - 16);
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

static inline void copy_block(char *to, const char *from, size_t size)
{
    enum { SHORT = 128 };
    if (size <= SHORT)
        copy_short(to, from, size);
    else
        onespace_copy(to, from, size);
}

static inline void copy_any_size(const struct strided_blocks *blocks)
{
    char *to = blocks->to;
    const char *from = blocks->from;
    for (size_t i = 0; i < blocks->count; i++) {
        copy_block(to, from, blocks->size);
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
        copy_any_size(blocks);
    }
}

/* A copy that follows the loops of one side. */
struct move {
    const struct loop *loops;
    enum { SAME_LAYOUT, SCATTER, GATHER } kind;
    char *packed; /* position in the single run: the source of SCATTER, the target of GATHER */
    ptrdiff_t src_delta; /* SAME_LAYOUT: source address minus target address */
};

static inline void move_runs(struct move *move, const struct loop *runs, char *first)
{
    struct strided_blocks blocks = {.size = runs->size, .count = runs->count};
    int64_t size = (int64_t)runs->size;
    blocks.to = move->kind == GATHER ? move->packed : first;
    blocks.to_stride = move->kind == GATHER ? size : runs->stride;
    blocks.from = move->kind == SCATTER       ? move->packed
                  : move->kind == SAME_LAYOUT ? first + move->src_delta
                                              : first;
    blocks.from_stride = move->kind == SCATTER ? size : runs->stride;
    if (move->kind != SAME_LAYOUT)
        move->packed += runs->size * runs->count;
    copy(&blocks);
}

static inline int is_one_run(const struct loop *loop)
{
    return loop->count == 1 && !loop->children;
}

/* Copies consecutive children that are single runs, as in a type with many blocks. Returns the
 * first other child, or `end`. */
static __attribute__((noinline)) const struct loop *move_single_runs(const struct move *move,
                                                                     const struct loop *child,
                                                                     const struct loop *end,
                                                                     char *at)
{
    ptrdiff_t src_delta = move->src_delta;
    for (; child != end && is_one_run(child); child++)
        copy_block(at + child->offset, at + child->offset + src_delta, child->size);
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
            if (move->kind == SAME_LAYOUT && is_one_run(child) &&
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
static int have_same_layout(const struct loop_nest *a, const struct loop_nest *b)
{
    const struct loop *x = &a->top, *y = &b->top;
    return a == b ||
           (!x->children && !y->children && x->offset == y->offset && x->stride == y->stride &&
            x->count == y->count && x->size == y->size && a->extent == b->extent);
}

int items_copy(const struct typed_items *to, const struct typed_items *from)
{
    struct move move = {.kind = SAME_LAYOUT, .src_delta = from->address - to->address};
    int is_same_layout = to->items == from->items && have_same_layout(to->nest, from->nest);
    int has_same_size = to->items * to->nest->size == from->items * from->nest->size;
    if (is_same_layout) {
        move_items(&move, to);
        return MPI_SUCCESS;
    }
    if (has_same_size && (move.packed = single_run(from)) != NULL) {
        move.kind = SCATTER;
        move_items(&move, to);
        return MPI_SUCCESS;
    }
    if (has_same_size && (move.packed = single_run(to)) != NULL) {
        move.kind = GATHER;
        move_items(&move, from);
        return MPI_SUCCESS;
    }
    return items_walk(to, from, copy_function, NULL);
}
