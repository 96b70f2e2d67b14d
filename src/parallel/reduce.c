/* src/parallel/reduce.c: reductions over the values of all members.
 *
 * Small values: each member stores a copy in the block, waits for the others and combines all
 * copies itself. Two buffers per member alternate: before a member writes to one again, it has
 * passed a barrier that all members entered after reading it. Large arrays: each member combines a
 * slice in member 0's array and copies it into the others'. Both combine in the order of the
 * members' numbers, so all members get the same result. */
#include "parallel/team.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "space/registry.h"

static int combine_small(struct onespace_parallel *team, char *values, size_t count, size_t size,
                         onespace_parallel_combine_function *combine)
{
    struct team_member *members = team->block->members;
    unsigned index = team->reductions++ % 2;
    memcpy(members[team->number].small[index], values, count * size);
    int result = team_barrier(team);
    if (result < 0)
        return result;
    _Alignas(64) char sum[TEAM_SMALL];
    memcpy(sum, members[0].small[index], count * size);
    for (int i = 1; i < team->count; i++)
        combine(sum, members[i].small[index], count);
    memcpy(values, sum, count * size);
    return 0;
}

static int combine_large(struct onespace_parallel *team, char *values, size_t count, size_t size,
                         onespace_parallel_combine_function *combine)
{
    struct team_member *members = team->block->members;
    size_t number = (size_t)team->number, all = (size_t)team->count;
    size_t each = count / all, remainder = count % all;
    size_t from = (each * number + (number < remainder ? number : remainder)) * size;
    size_t length = each + (number < remainder);
    members[number].values = values;
    int result = team_barrier(team);
    if (result < 0)
        return result;
    /* In guarded tasks the arrays are the members' own memory, which they passed for this purpose.
     */
    const struct space_guard *guard = &space_registry()->guard;
    uint32_t rights = guard_open(guard);
    char *sum = members[0].values + from;
    for (size_t i = 1; i < all && length > 0; i++)
        combine(sum, members[i].values + from, length);
    for (size_t i = 1; i < all; i++)
        memcpy(members[i].values + from, sum, length * size);
    guard_close(guard, rights);
    return team_barrier(team);
}

int onespace_parallel_combine(struct onespace_parallel *team, void *values, size_t count,
                              size_t size, onespace_parallel_combine_function *combine)
{
    int result = team_check_barrier(team);
    if (result == 0 && (!values || !combine || count == 0 || size == 0 || count > SIZE_MAX / size))
        result = -EINVAL;
    if (result < 0)
        return result;
    return count * size <= TEAM_SMALL ? combine_small(team, values, count, size, combine)
                                      : combine_large(team, values, count, size, combine);
}

#define COMBINE(name, type, expression)                                                            \
    static void name(void *into, const void *from, size_t count)                                   \
    {                                                                                              \
        type *a = into;                                                                            \
        const type *b = from;                                                                      \
        for (size_t i = 0; i < count; i++)                                                         \
            a[i] = (expression);                                                                   \
    }
/* Sums of long wrap around, as unsigned ones do. */
COMBINE(add_longs, long, (long)((unsigned long)a[i] + (unsigned long)b[i]))
COMBINE(min_longs, long, b[i] < a[i] ? b[i] : a[i])
COMBINE(max_longs, long, b[i] > a[i] ? b[i] : a[i])
COMBINE(add_doubles, double, a[i] + b[i])
COMBINE(min_doubles, double, b[i] < a[i] ? b[i] : a[i])
COMBINE(max_doubles, double, b[i] > a[i] ? b[i] : a[i])

static onespace_parallel_combine_function *const functions[2][3] = {
    [ONESPACE_PARALLEL_LONG] = {add_longs, min_longs, max_longs},
    [ONESPACE_PARALLEL_DOUBLE] = {add_doubles, min_doubles, max_doubles},
};

int onespace_parallel_reduce(struct onespace_parallel *team, void *values, size_t count,
                             enum onespace_parallel_type type,
                             enum onespace_parallel_operation operation)
{
    if ((unsigned)type > ONESPACE_PARALLEL_DOUBLE || (unsigned)operation > ONESPACE_PARALLEL_MAX)
        return -EINVAL;
    return onespace_parallel_combine(team, values, count, 8, functions[type][operation]);
}
static_assert(sizeof(long) == 8 && sizeof(double) == 8, "the size in onespace_parallel_reduce");
