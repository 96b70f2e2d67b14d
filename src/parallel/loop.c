/* src/parallel/loop.c: distributing the iterations of a loop. */
#include "parallel/team.h"

#include <errno.h>

struct range {
    long begin;
    unsigned long length, chunk, chunks;
};

static void run_chunk(const struct team_loop *loop, const struct range *range, unsigned long index)
{
    unsigned long from = index * range->chunk;
    unsigned long length =
        range->length - from < range->chunk ? range->length - from : range->chunk;
    long begin = (long)((unsigned long)range->begin + from);
    loop->part(begin, (long)((unsigned long)begin + length), loop->argument);
}

/* The first `length % count` members get one more iteration than the others. */
static void run_block(const struct onespace_parallel *team, const struct team_loop *loop,
                      const struct range *range)
{
    unsigned long count = (unsigned long)team->count, number = (unsigned long)team->number;
    unsigned long each = range->length / count, more = range->length % count;
    unsigned long from = each * number + (number < more ? number : more);
    long begin = (long)((unsigned long)range->begin + from);
    unsigned long length = each + (number < more);
    if (length > 0)
        loop->part(begin, (long)((unsigned long)begin + length), loop->argument);
}

void team_run_loop(struct onespace_parallel *team, const struct team_loop *loop)
{
    if (loop->end <= loop->begin)
        return;
    struct range range = {loop->begin, (unsigned long)loop->end - (unsigned long)loop->begin, 0, 0};
    if (loop->schedule == ONESPACE_PARALLEL_STATIC) {
        run_block(team, loop, &range);
        return;
    }
    int is_dynamic = loop->schedule > 0;
    range.chunk = is_dynamic ? (unsigned long)loop->schedule : -(unsigned long)loop->schedule;
    range.chunks = range.length / range.chunk + (range.length % range.chunk != 0);
    unsigned long index = (unsigned long)team->number;
    /* Relaxed: this only assigns chunks to members; barriers order the accesses to memory. */
    if (is_dynamic)
        while ((index = atomic_fetch_add_explicit(&team->block->next_chunk, 1,
                                                  memory_order_relaxed)) < range.chunks)
            run_chunk(loop, &range, index);
    else
        for (; index < range.chunks; index += (unsigned long)team->count)
            run_chunk(loop, &range, index);
}

int onespace_parallel_for(struct onespace_parallel *team, long begin, long end, long schedule,
                          onespace_parallel_part *part, void *argument)
{
    if (!part)
        return -EINVAL;
    struct team_loop loop = {begin, end, schedule, part, argument};
    int result = team_may_meet(team);
    if (result == -EDEADLK) {
        struct team_region region = {.order = ORDER_LOOP, .loop = loop};
        result = team_describe((const void *)(uintptr_t)part, &region.function);
        return result ? result : team_fork(team, &region);
    }
    if (result < 0)
        return result;
    team_run_loop(team, &loop);
    return team_barrier(team);
}
