/* cmd/map/rows.c: the sums by owner and kind, and how they are named. */
#include <stdlib.h>

#include "cmd/map/map.h"

static const char *const kind_names[MAP_KINDS] = {
    [MAP_PROGRAM] = "program",     [MAP_LIBRARY] = "library", [MAP_HEAP] = "heap",
    [MAP_ANONYMOUS] = "anonymous", [MAP_STACK] = "stack",     [MAP_THREAD_STACK] = "thread stack",
    [MAP_SHARED] = "shared",       [MAP_FILE] = "file",       [MAP_OWN] = "onespace",
    [MAP_UNKNOWN] = "unknown",
};

const char *map_kind_name(enum map_kind kind)
{
    return kind_names[kind];
}

const char *map_owner_name(enum map_owner owner)
{
    static const char *const names[] = {"root", "registry", "reaper", "task", "unknown"};
    return names[owner];
}

char *map_label(char text[MAP_LABEL], enum map_owner owner, unsigned slot,
                const struct ps_task *task)
{
    if (owner == MAP_TASK && task && task->id >= 0)
        snprintf(text, MAP_LABEL, "task %d", task->id);
    else if (owner == MAP_TASK)
        snprintf(text, MAP_LABEL, "slot %u", slot);
    else
        snprintf(text, MAP_LABEL, "%s", map_owner_name(owner));
    return text;
}

static void add(struct map_sum *sum, const struct map_region *region)
{
    sum->regions++;
    sum->size += region->end - region->start;
    sum->resident += region->resident;
    sum->huge += region->huge;
}

static int compare_rows(const void *left, const void *right)
{
    const struct map_row *a = left, *b = right;
    if (a->owner != b->owner)
        return a->owner < b->owner ? -1 : 1;
    return a->slot < b->slot ? -1 : a->slot > b->slot;
}

struct map_row *map_rows(const struct map *map, size_t *count)
{
    struct map_row *rows = calloc(MAP_NOBODY + 1 + LAYOUT_SLOTS, sizeof(*rows));
    *count = 0;
    for (size_t i = 0; rows && i < map->count; i++) {
        const struct map_region *region = &map->regions[i];
        size_t at = *count;
        while (at > 0 && (rows[at - 1].owner != region->owner || rows[at - 1].slot != region->slot))
            at--;
        struct map_row *row = at ? &rows[at - 1] : &rows[(*count)++];
        row->owner = region->owner;
        row->slot = region->slot;
        row->task = region->task;
        add(&row->all, region);
        add(&row->of_kind[region->kind], region);
    }
    if (rows)
        qsort(rows, *count, sizeof(*rows), compare_rows);
    return rows;
}
