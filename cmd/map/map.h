/* cmd/map/map.h: what `onespace map` finds out about the memory of a space. */
#ifndef ONESPACE_CMD_MAP_MAP_H
#define ONESPACE_CMD_MAP_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/ps/ps.h"

struct map_sum {
    size_t regions;
    uint64_t size, resident, huge;
};

/* All that one owner has. */
struct map_row {
    enum map_owner owner;
    unsigned slot;
    const struct ps_task *task;
    unsigned tasks; /* that are summed up here: of one program; 0: one owner */
    struct map_sum all, of_kind[MAP_KINDS];
};

/* What is shown of a space. */
struct map_view {
    int all, tasks; /* every mapping; every task */
};

/* kinds.c: fills owner, slot, task and kind of every region. */
void map_classify(struct map *map);
/* table.c: one row per owner, in the order of enum map_owner and of the slots; NULL: out of memory.
 * The caller frees it. */
struct map_row *map_rows(const struct map *map, size_t *count);
/* Adds the sums of the row. */
void map_add_row(struct map_row *to, const struct map_row *row);
const char *map_kind_name(enum map_kind kind);
/* "root", "task 3", into text, which is returned. */
enum { MAP_LABEL = 32 };
char *map_label(char text[MAP_LABEL], enum map_owner owner, unsigned slot,
                const struct ps_task *task);

/* table.c: as tables; the rows are grouped for it. */
void map_print(FILE *out, unsigned width, const struct map *map, struct map_row *rows, size_t count,
               const struct map_view *view);
/* As an element of a JSON array; with `all` every mapping. */
void map_write(struct output_json *json, const struct map *map, const struct map_row *rows,
               size_t count, int all);

/* svg.c: draws the rows. */
void map_draw(FILE *out, const struct map *map, const struct map_row *rows, size_t count);

#endif
