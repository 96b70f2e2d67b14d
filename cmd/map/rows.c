/* cmd/map/rows.c: the sums by owner and kind, and how they are named. */
#include <stdlib.h>
#include <string.h>

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

/* ---- Many tasks ---- */

static int compare_sums(const struct map_sum *a, const struct map_sum *b, enum map_order order)
{
    uint64_t left = order == MAP_BY_MEMORY ? a->resident : a->regions;
    uint64_t right = order == MAP_BY_MEMORY ? b->resident : b->regions;
    return left < right ? 1 : left > right ? -1 : 0;
}

/* Only tasks are sorted: what the space itself has stays above them. */
static int compare_by(const struct map_row *a, const struct map_row *b, enum map_order order)
{
    int result =
        a->owner == MAP_TASK && b->owner == MAP_TASK ? compare_sums(&a->all, &b->all, order) : 0;
    return result ? result : compare_rows(a, b);
}

static int rows_by_memory(const void *left, const void *right)
{
    return compare_by(left, right, MAP_BY_MEMORY);
}

static int rows_by_count(const void *left, const void *right)
{
    return compare_by(left, right, MAP_BY_COUNT);
}

void map_sort_rows(struct map_row *rows, size_t count, enum map_order order)
{
    if (order != MAP_BY_PLACE)
        qsort(rows, count, sizeof(*rows), order == MAP_BY_MEMORY ? rows_by_memory : rows_by_count);
}

static int regions_by_memory(const void *left, const void *right)
{
    const struct map_region *a = left, *b = right;
    if (a->resident != b->resident)
        return a->resident < b->resident ? 1 : -1;
    return a->start < b->start ? -1 : a->start > b->start;
}

/* Each mapping counts once: by their number they stay as they lie. */
void map_sort_regions(struct map *map, enum map_order order)
{
    if (order == MAP_BY_MEMORY && map->count)
        qsort(map->regions, map->count, sizeof(*map->regions), regions_by_memory);
}

static const char *program_of(const struct map_row *row)
{
    return row->task ? row->task->program : "";
}

static void merge(struct map_sum *to, const struct map_sum *sum)
{
    to->regions += sum->regions;
    to->size += sum->size;
    to->resident += sum->resident;
    to->huge += sum->huge;
}

size_t map_group(struct map_row *rows, size_t count)
{
    size_t groups = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < groups && (rows[i].owner != MAP_TASK || rows[at].owner != MAP_TASK ||
                               strcmp(program_of(&rows[at]), program_of(&rows[i])) != 0))
            at++;
        if (at == groups) {
            rows[groups] = rows[i];
            rows[groups++].tasks = rows[i].owner == MAP_TASK;
            continue;
        }
        rows[at].tasks++;
        merge(&rows[at].all, &rows[i].all);
        for (int kind = 0; kind < MAP_KINDS; kind++)
            merge(&rows[at].of_kind[kind], &rows[i].of_kind[kind]);
    }
    return groups;
}
