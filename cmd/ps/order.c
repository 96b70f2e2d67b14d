/* cmd/ps/order.c: sorts the tasks of a space, and groups those with one program and state. */
#include <stdlib.h>
#include <string.h>

#include "cmd/ps/show.h"

uint64_t show_used(const struct ps_task *task)
{
    return task->memory.private + task->memory.swapped;
}

static int descending(double left, double right)
{
    return left < right ? 1 : left > right ? -1 : 0;
}

/* The root is the row that all tables begin with. */
static int compare_roots(const struct ps_task *a, const struct ps_task *b)
{
    return (b->id == 0) - (a->id == 0);
}

static int by_memory(const void *left, const void *right)
{
    const struct ps_task *a = left, *b = right;
    int result = compare_roots(a, b);
    if (result == 0)
        result = descending((double)show_used(a), (double)show_used(b));
    if (result == 0)
        result = descending((double)a->memory.resident, (double)b->memory.resident);
    return result ? result : (a->slot > b->slot) - (a->slot < b->slot);
}

static int by_time(const void *left, const void *right)
{
    const struct ps_task *a = left, *b = right;
    int result = compare_roots(a, b);
    if (result == 0)
        result = descending(a->cpu_seconds, b->cpu_seconds);
    return result ? result : (a->slot > b->slot) - (a->slot < b->slot);
}

void show_sort(struct ps_space *space, enum show_order order)
{
    if (order != SHOW_BY_ID && space->task_count)
        qsort(space->tasks, space->task_count, sizeof(*space->tasks),
              order == SHOW_BY_MEMORY ? by_memory : by_time);
}

/* ---- Groups ---- */

static int belongs(const struct show_group *group, const struct ps_task *task)
{
    const struct ps_task *first = group->first;
    return (first->id == 0) == (task->id == 0) && strcmp(first->state, task->state) == 0 &&
           first->ended == task->ended && (!task->ended || first->status == task->status) &&
           strcmp(first->program, task->program) == 0;
}

static void add_memory(struct ps_memory *to, const struct ps_memory *memory)
{
    to->known |= memory->known;
    to->resident += memory->resident;
    to->private += memory->private;
    to->proportional += memory->proportional;
    to->swapped += memory->swapped;
    to->heap += memory->heap;
}

static void add_task(struct show_group *group, const struct ps_task *task)
{
    group->count++;
    group->seconds = task->seconds > group->seconds ? task->seconds : group->seconds;
    if (task->cpu_seconds >= 0)
        group->cpu_seconds = task->cpu_seconds + (group->cpu_seconds > 0 ? group->cpu_seconds : 0);
    group->copied_bytes += task->copied_bytes;
    add_memory(&group->memory, &task->memory);
    if (task->memory.known && (!group->largest || show_used(task) > show_used(group->largest)))
        group->largest = task;
}

static int groups_by_memory(const void *left, const void *right)
{
    const struct show_group *a = left, *b = right;
    int result = compare_roots(a->first, b->first);
    return result ? result
                  : descending((double)(a->memory.private + a->memory.swapped),
                               (double)(b->memory.private + b->memory.swapped));
}

static int groups_by_time(const void *left, const void *right)
{
    const struct show_group *a = left, *b = right;
    int result = compare_roots(a->first, b->first);
    return result ? result : descending(a->cpu_seconds, b->cpu_seconds);
}

static int groups_by_count(const void *left, const void *right)
{
    const struct show_group *a = left, *b = right;
    int result = compare_roots(a->first, b->first);
    if (result == 0)
        result = descending(a->count, b->count);
    return result ? result : (a->first->slot > b->first->slot) - (a->first->slot < b->first->slot);
}

struct show_group *show_groups(const struct ps_space *space, enum show_order order, unsigned *count)
{
    struct show_group *groups = calloc(space->task_count + 1, sizeof(*groups));
    *count = 0;
    for (unsigned i = 0; groups && i < space->task_count; i++) {
        const struct ps_task *task = &space->tasks[i];
        unsigned at = 0;
        while (at < *count && !belongs(&groups[at], task))
            at++;
        if (at == *count)
            groups[(*count)++] =
                (struct show_group){.first = task, .seconds = -1, .cpu_seconds = -1};
        add_task(&groups[at], task);
    }
    if (groups)
        qsort(groups, *count, sizeof(*groups),
              order == SHOW_BY_MEMORY ? groups_by_memory
              : order == SHOW_BY_TIME ? groups_by_time
                                      : groups_by_count);
    return groups;
}
