/* cmd/map/table.c: the sums by owner and kind, as tables for people and as JSON for programs. */
#include <stdlib.h>
#include <string.h>

#include "cmd/lib/output.h"
#include "cmd/map/map.h"

/* ---- Sums ---- */

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

static const char *owner_name(enum map_owner owner)
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
        snprintf(text, MAP_LABEL, "%s", owner_name(owner));
    return text;
}

static void add(struct map_sum *sum, const struct map_region *region)
{
    sum->regions++;
    sum->size += region->end - region->start;
    sum->resident += region->resident;
    sum->huge += region->huge;
}

void map_add_row(struct map_row *to, const struct map_row *row)
{
    for (int kind = -1; kind < MAP_KINDS; kind++) {
        const struct map_sum *from = kind < 0 ? &row->all : &row->of_kind[kind];
        struct map_sum *sum = kind < 0 ? &to->all : &to->of_kind[kind];
        sum->regions += from->regions;
        sum->size += from->size;
        sum->resident += from->resident;
        sum->huge += from->huge;
    }
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

static const char *program_of(const struct map_row *row)
{
    return row->task ? row->task->program : "";
}

/* Sums up the tasks of one program, in place: the new count. */
static size_t group_by_program(struct map_row *rows, size_t count)
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
        map_add_row(&rows[at], &rows[i]);
    }
    return groups;
}

enum { OWNER_ROWS_MAX = 8 }; /* more owners are summed up by program */

/* ---- For people ---- */

static void sum_cells(struct output_table *table, const struct map *map, const struct map_sum *sum)
{
    output_cell(table, "%zu", sum->regions);
    output_cell_bytes(table, 1, sum->size);
    output_cell_bytes(table, map->counted, sum->resident);
    output_cell_bytes(table, map->counted, sum->huge);
}

static void row_cells(struct output_table *table, const struct map *map, const struct map_row *row)
{
    char label[MAP_LABEL];
    if (row->tasks > 1)
        output_cell(table, "%u tasks", row->tasks);
    else
        output_cell(table, "%s", map_label(label, row->owner, row->slot, row->task));
    output_cell(table, "all");
    sum_cells(table, map, &row->all);
    output_cell(table, "%s", row->task ? row->task->program : "");
}

static void kind_cells(struct output_table *table, const struct map *map, const struct map_row *row)
{
    for (int kind = 0; kind < MAP_KINDS; kind++) {
        if (row->of_kind[kind].regions == 0)
            continue;
        output_cell(table, "%s", "");
        output_cell(table, "%s", map_kind_name(kind));
        sum_cells(table, map, &row->of_kind[kind]);
        output_cell(table, "%s", "");
    }
}

static void print_rows(FILE *out, unsigned width, const struct map *map, const struct map_row *rows,
                       size_t count)
{
    static const char *const headers[] = {"OWNER",    "KIND", "MAPPINGS", "SIZE",
                                          "RESIDENT", "HUGE", "PROGRAM"};
    struct output_table table = {.headers = headers, .columns = 7, .right_aligned = 0x3c};
    struct map_row space = {.owner = MAP_NOBODY};
    for (size_t i = 0; i < count; i++) {
        row_cells(&table, map, &rows[i]);
        kind_cells(&table, map, &rows[i]);
        map_add_row(&space, &rows[i]);
    }
    output_cell(&table, "space");
    output_cell(&table, "all");
    sum_cells(&table, map, &space.all);
    output_cell(&table, "%s", "");
    output_table(&table, out, width);
}

static void print_regions(FILE *out, unsigned width, const struct map *map)
{
    static const char *const headers[] = {"START", "END",   "PERM", "SIZE", "RESIDENT",
                                          "HUGE",  "OWNER", "KIND", "NAME"};
    struct output_table table = {.headers = headers, .columns = 9, .right_aligned = 0x38};
    for (size_t i = 0; i < map->count; i++) {
        const struct map_region *region = &map->regions[i];
        char label[MAP_LABEL];
        output_cell(&table, "%012jx", (uintmax_t)region->start);
        output_cell(&table, "%012jx", (uintmax_t)region->end);
        output_cell(&table, "%s", region->permissions);
        output_cell_bytes(&table, 1, region->end - region->start);
        output_cell_bytes(&table, map->counted, region->resident);
        output_cell_bytes(&table, map->counted, region->huge);
        output_cell(&table, "%s", map_label(label, region->owner, region->slot, region->task));
        output_cell(&table, "%s", map_kind_name(region->kind));
        output_cell(&table, "%s", region->name ? region->name : "");
    }
    output_table(&table, out, width);
}

void map_print(FILE *out, unsigned width, const struct map *map, struct map_row *rows, size_t count,
               const struct map_view *view)
{
    ps_print_title(out, map->space, width);
    if (view->all)
        print_regions(out, width, map);
    else if (!view->tasks && count > OWNER_ROWS_MAX)
        print_rows(out, width, map, rows, group_by_program(rows, count));
    else
        print_rows(out, width, map, rows, count);
}

/* ---- For programs ---- */

static void write_bytes(struct output_json *json, const struct map *map, uint64_t resident,
                        uint64_t huge)
{
    json_integer_from(json, "resident", 0, map->counted ? (int64_t)resident : -1);
    json_integer_from(json, "huge", 0, map->counted ? (int64_t)huge : -1);
}

static void write_owner(struct output_json *json, enum map_owner owner, unsigned slot,
                        const struct ps_task *task)
{
    json_text(json, "owner", owner_name(owner));
    json_integer_from(json, "task", 0, owner == MAP_TASK && task ? task->id : -1);
    json_integer_from(json, "slot", 0, owner == MAP_TASK ? (int64_t)slot : -1);
}

static void write_rows(struct output_json *json, const struct map *map, const struct map_row *rows,
                       size_t count)
{
    json_open(json, "summary", '[');
    for (size_t i = 0; i < count * MAP_KINDS; i++) {
        const struct map_row *row = &rows[i / MAP_KINDS];
        const struct map_sum *sum = &row->of_kind[i % MAP_KINDS];
        if (sum->regions == 0)
            continue;
        json_open(json, NULL, '{');
        write_owner(json, row->owner, row->slot, row->task);
        json_text(json, "kind", map_kind_name(i % MAP_KINDS));
        json_integer(json, "mappings", (int64_t)sum->regions);
        json_integer(json, "size", (int64_t)sum->size);
        write_bytes(json, map, sum->resident, sum->huge);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_regions(struct output_json *json, const struct map *map)
{
    json_open(json, "mappings", '[');
    for (size_t i = 0; i < map->count; i++) {
        const struct map_region *region = &map->regions[i];
        json_open(json, NULL, '{');
        json_integer(json, "start", (int64_t)region->start);
        json_integer(json, "end", (int64_t)region->end);
        json_text(json, "permissions", region->permissions);
        write_owner(json, region->owner, region->slot, region->task);
        json_text(json, "kind", map_kind_name(region->kind));
        write_bytes(json, map, region->resident, region->huge);
        json_text(json, "name", region->name);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_tasks(struct output_json *json, const struct ps_space *space)
{
    json_open(json, "tasks", '[');
    for (unsigned i = 0; i < space->task_count; i++) {
        const struct ps_task *task = &space->tasks[i];
        if (task->id == 0)
            continue;
        json_open(json, NULL, '{');
        json_integer_from(json, "id", 1, task->id);
        json_integer_from(json, "pid", 1, task->pid);
        json_integer_from(json, "slot", 1, (int)task->slot);
        json_text(json, "state", task->state);
        json_text(json, "program", task->program);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void map_write(struct output_json *json, const struct map *map, const struct map_row *rows,
               size_t count, int all)
{
    const struct ps_space *space = map->space;
    json_open(json, NULL, '{');
    json_integer_from(json, "root_pid", 1, space->root_pid);
    json_integer_from(json, "reaper_pid", 1, space->reaper_pid);
    json_text(json, "name", space->name);
    json_text(json, "problem", space->problem[0] ? space->problem : NULL);
    write_tasks(json, space);
    write_rows(json, map, rows, count);
    if (all)
        write_regions(json, map);
    json_close(json, '}');
}
