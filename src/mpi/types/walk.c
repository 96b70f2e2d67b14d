/* src/mpi/types/walk.c: see walk.h. */
#include "mpi/types/walk.h"

#include <stdlib.h>

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

static void walk_both(struct cursor *to, struct cursor *from, walk_function *function,
                      void *context)
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

int walk(const struct side *to, const struct side *from, walk_function *function, void *context)
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
