/* cmd/map/print.c: the memory of a space as tables for people and as JSON for programs. */
#include "cmd/lib/output.h"
#include "cmd/map/map.h"

#include <string.h>

/* ---- For people ---- */

static void bytes_cell(struct output_table *table, int known, uint64_t bytes)
{
    char text[OUTPUT_SHORT];
    output_cell(table, "%s", known ? output_bytes(text, bytes) : "-");
}

static void sum_cells(struct output_table *table, const struct map *map, const struct map_sum *sum)
{
    output_cell(table, "%zu", sum->regions);
    bytes_cell(table, 1, sum->size);
    bytes_cell(table, map->counted, sum->resident);
    bytes_cell(table, map->counted, sum->huge);
}

static void row_cells(struct output_table *table, const struct map *map, const struct map_row *row)
{
    char label[MAP_LABEL];
    output_cell(table, "%s", map_label(label, row->owner, row->slot, row->task));
    output_cell(table, "all");
    sum_cells(table, map, &row->all);
    output_cell(table, "%s", row->task ? row->task->program : "");
    for (int kind = 0; kind < MAP_KINDS; kind++) {
        if (row->of_kind[kind].regions == 0)
            continue;
        output_cell(table, "%s", "");
        output_cell(table, "%s", map_kind_name(kind));
        sum_cells(table, map, &row->of_kind[kind]);
        output_cell(table, "%s", "");
    }
}

static void print_rows(const struct map *map, const struct map_row *rows, size_t count)
{
    static const char *const headers[] = {"OWNER",    "KIND", "MAPPINGS", "SIZE",
                                          "RESIDENT", "HUGE", "PROGRAM"};
    struct output_table table = {.headers = headers, .columns = 7, .right_aligned = 0x3c};
    struct map_row all = {.owner = MAP_NOBODY};
    for (size_t i = 0; i < count; i++) {
        row_cells(&table, map, &rows[i]);
        all.all.regions += rows[i].all.regions;
        all.all.size += rows[i].all.size;
        all.all.resident += rows[i].all.resident;
        all.all.huge += rows[i].all.huge;
    }
    output_cell(&table, "space");
    output_cell(&table, "all");
    sum_cells(&table, map, &all.all);
    output_cell(&table, "%s", "");
    output_table(&table, stdout, output_width(stdout));
}

static void print_regions(const struct map *map)
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
        bytes_cell(&table, 1, region->end - region->start);
        bytes_cell(&table, map->counted, region->resident);
        bytes_cell(&table, map->counted, region->huge);
        output_cell(&table, "%s", map_label(label, region->owner, region->slot, region->task));
        output_cell(&table, "%s", map_kind_name(region->kind));
        output_cell(&table, "%s", region->name ? region->name : "");
    }
    output_table(&table, stdout, output_width(stdout));
}

void map_print(const struct map *map, const struct map_row *rows, size_t count, int all)
{
    ps_print_title(stdout, map->space, output_width(stdout));
    if (all)
        print_regions(map);
    else
        print_rows(map, rows, count);
}

/* ---- For programs ---- */

static void write_bytes(struct output_json *json, const struct map *map, uint64_t resident,
                        uint64_t huge)
{
    if (map->counted) {
        json_integer(json, "resident", (int64_t)resident);
        json_integer(json, "huge", (int64_t)huge);
    } else {
        json_null(json, "resident");
        json_null(json, "huge");
    }
}

static void write_owner(struct output_json *json, enum map_owner owner, unsigned slot,
                        const struct ps_task *task)
{
    json_text(json, "owner", map_owner_name(owner));
    if (owner == MAP_TASK && task && task->id >= 0)
        json_integer(json, "task", task->id);
    else
        json_null(json, "task");
    if (owner == MAP_TASK)
        json_integer(json, "slot", slot);
    else
        json_null(json, "slot");
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

static void integer_or_null(struct output_json *json, const char *key, int value)
{
    if (value > 0)
        json_integer(json, key, value);
    else
        json_null(json, key);
}

static void write_tasks(struct output_json *json, const struct ps_space *space)
{
    json_open(json, "tasks", '[');
    for (unsigned i = 0; i < space->task_count; i++) {
        const struct ps_task *task = &space->tasks[i];
        if (task->id == 0)
            continue;
        json_open(json, NULL, '{');
        integer_or_null(json, "id", task->id);
        integer_or_null(json, "pid", task->pid);
        integer_or_null(json, "slot", (int)task->slot);
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
    integer_or_null(json, "root_pid", space->root_pid);
    integer_or_null(json, "reaper_pid", space->reaper_pid);
    json_text(json, "name", space->name);
    json_text(json, "problem", space->problem[0] ? space->problem : NULL);
    write_tasks(json, space);
    write_rows(json, map, rows, count);
    if (all)
        write_regions(json, map);
    json_close(json, '}');
}
