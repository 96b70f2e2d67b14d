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

/* More owners are summed up by program. */
enum { OWNER_ROWS_MAX = 8, TOP_ROWS = 8 };

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

static struct output_table table_of_rows(void)
{
    static const char *const headers[] = {"OWNER",    "KIND", "MAPPINGS", "SIZE",
                                          "RESIDENT", "HUGE", "PROGRAM"};
    return (struct output_table){.headers = headers, .columns = 7, .right_aligned = 0x3c};
}

static void print_rows(FILE *out, unsigned width, const struct map *map, const struct map_row *rows,
                       size_t count)
{
    struct output_table table = table_of_rows();
    struct map_row all = {.owner = MAP_NOBODY};
    for (size_t i = 0; i < count; i++) {
        row_cells(&table, map, &rows[i]);
        kind_cells(&table, map, &rows[i]);
        all.all.regions += rows[i].all.regions;
        all.all.size += rows[i].all.size;
        all.all.resident += rows[i].all.resident;
        all.all.huge += rows[i].all.huge;
    }
    output_cell(&table, "space");
    output_cell(&table, "all");
    sum_cells(&table, map, &all.all);
    output_cell(&table, "%s", "");
    output_table(&table, out, width);
}

/* The first tasks, a line each: below a summary that is sorted. */
static void print_top(FILE *out, unsigned width, const struct map *map, const struct map_row *rows,
                      size_t count, enum map_order order)
{
    struct output_table table = table_of_rows();
    unsigned shown = 0;
    for (size_t i = 0; i < count && shown < TOP_ROWS; i++)
        if (rows[i].owner == MAP_TASK) {
            row_cells(&table, map, &rows[i]);
            shown++;
        }
    fprintf(out, "the %u with the most %s:\n", shown,
            order == MAP_BY_MEMORY ? "memory" : "mappings");
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
        bytes_cell(&table, 1, region->end - region->start);
        bytes_cell(&table, map->counted, region->resident);
        bytes_cell(&table, map->counted, region->huge);
        output_cell(&table, "%s", map_label(label, region->owner, region->slot, region->task));
        output_cell(&table, "%s", map_kind_name(region->kind));
        output_cell(&table, "%s", region->name ? region->name : "");
    }
    output_table(&table, out, width);
}

/* Groups the rows last, since that is done in place. */
static void print_sums(FILE *out, unsigned width, const struct map *map, struct map_row *rows,
                       size_t count, const struct map_view *view)
{
    int is_summary = !view->tasks && count > OWNER_ROWS_MAX;
    map_sort_rows(rows, count, view->order);
    struct map_row *first = NULL;
    if (is_summary && view->order != MAP_BY_PLACE)
        first = malloc(count * sizeof(*first));
    if (first)
        memcpy(first, rows, count * sizeof(*first));
    size_t shown = is_summary ? map_group(rows, count) : count;
    if (is_summary)
        map_sort_rows(rows, shown, view->order);
    print_rows(out, width, map, rows, shown);
    if (first)
        print_top(out, width, map, first, count, view->order);
    free(first);
}

void map_print(FILE *out, unsigned width, struct map *map, struct map_row *rows, size_t count,
               const struct map_view *view)
{
    ps_print_title(out, map->space, width);
    if (view->all) {
        map_sort_regions(map, view->order);
        print_regions(out, width, map);
    } else
        print_sums(out, width, map, rows, count, view);
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
