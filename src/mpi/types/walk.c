/* src/mpi/types/walk.c: see walk.h. */
#include "mpi/types/walk.h"

#include <stdlib.h>
#include <string.h>

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

static int begin(struct cursor *cursor, const struct side *side)
{
    const struct layout *layout = side->layout;
    cursor->loops = layout->loops;
    cursor->top = layout->top;
    cursor->depth = 0;
    cursor->count = 0;
    int has_item = !loop_repeat(&cursor->top, side->items, layout->extent);
    if (has_item) {
        cursor->item = layout->top;
        cursor->top = (struct loop){.stride = layout->extent,
                                    .count = side->items,
                                    .children = 1,
                                    .depth = layout->top.depth + 1};
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

static inline int copy(void *context, const struct blocks *blocks)
{
    (void)context;
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
    default:
        copy_equal(blocks, blocks->size);
    }
    return 0;
}

/* Always inline, so that the compiler knows the function. */
static inline __attribute__((always_inline)) void walk_both(struct cursor *to, struct cursor *from,
                                                            walk_function *function, void *context)
{
    while (to->count && from->count) {
        struct blocks blocks = {.to = to->run + to->done, .from = from->run + from->done};
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

static int begin_both(struct cursor *to, const struct side *sink, struct cursor *from,
                      const struct side *source)
{
    int result = begin(to, sink);
    if (result == MPI_SUCCESS && (result = begin(from, source)) != MPI_SUCCESS)
        end(to);
    return result;
}

static void end_both(struct cursor *to, struct cursor *from)
{
    end(from);
    end(to);
}

int walk(const struct side *to, const struct side *from, walk_function *function, void *context)
{
    struct cursor sink, source;
    int result = begin_both(&sink, to, &source, from);
    if (result != MPI_SUCCESS)
        return result;
    walk_both(&sink, &source, function, context);
    end_both(&sink, &source);
    return MPI_SUCCESS;
}

/* Both sides have the same layout: one cursor serves both. */
static int copy_alike(const struct side *to, const struct side *from)
{
    struct cursor cursor;
    int result = begin(&cursor, to);
    if (result != MPI_SUCCESS)
        return result;
    while (cursor.count) {
        struct blocks blocks = {cursor.run,    from->address + (cursor.run - to->address),
                                cursor.stride, cursor.stride,
                                cursor.size,   cursor.count};
        copy(NULL, &blocks);
        cursor.count = 0;
        next_runs(&cursor);
    }
    end(&cursor);
    return MPI_SUCCESS;
}

int walk_copy(const struct side *to, const struct side *from)
{
    struct cursor sink, source;
    if (to->layout == from->layout && to->items == from->items)
        return copy_alike(to, from);
    int result = begin_both(&sink, to, &source, from);
    if (result != MPI_SUCCESS)
        return result;
    walk_both(&sink, &source, copy, NULL);
    end_both(&sink, &source);
    return MPI_SUCCESS;
}
