/* cmd/map/map.h: what `onespace map` finds out about the memory of a space. */
#ifndef ONESPACE_CMD_MAP_MAP_H
#define ONESPACE_CMD_MAP_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/ps/ps.h"

enum map_owner { MAP_ROOT, MAP_REGISTRY, MAP_REAPER, MAP_TASK, MAP_NOBODY };

/* In the order in which they are listed and drawn. */
enum map_kind {
    MAP_PROGRAM,
    MAP_LIBRARY,
    MAP_HEAP,
    MAP_ANONYMOUS,
    MAP_STACK,
    MAP_THREAD_STACK,
    MAP_SHARED,
    MAP_FILE,
    MAP_OWN,
    MAP_UNKNOWN,
    MAP_KINDS
};

struct map_region {
    uintptr_t start, end;
    char permissions[5];
    enum map_owner owner;
    unsigned slot;              /* of a task */
    const struct ps_task *task; /* of a task and the root; NULL: it started or ended meanwhile */
    enum map_kind kind;
    uint64_t resident, huge;               /* bytes; huge: the part of it in huge pages */
    uint64_t anonymous;                    /* bytes that are in no file: without one, or changed */
    uint64_t offset;                       /* in its file */
    int is_device, not_dumped, is_hugetlb; /* the last but one: by MADV_DONTDUMP */
    char *name;                            /* the file or what the kernel calls it, or NULL */
};

struct map {
    const struct ps_space *space;
    int counted; /* whether the kernel reported resident memory */
    struct map_region *regions;
    size_t count, room;
};

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

enum map_order { MAP_BY_PLACE, MAP_BY_MEMORY, MAP_BY_COUNT };

/* What is shown of a space, and how. */
struct map_view {
    int all, tasks; /* every mapping; every task */
    enum map_order order;
};

/* mappings.c: the mappings of the space, ascending: 0, -EACCES or -EPERM when this user may not
 * read them, or -ESRCH when the space has ended. To be freed with map_free. */
int map_read(const struct ps_space *space, struct map *map);
void map_free(struct map *map);

/* mappings.c: fills owner, slot, task and kind of every region. */
void map_classify(struct map *map);
/* The owners alone. */
void map_set_owners(struct map *map);
/* table.c: one row per owner, in the order of enum map_owner and of the slots; NULL: out of memory.
 * The caller frees it. */
struct map_row *map_rows(const struct map *map, size_t *count);
/* Sorts the tasks among the rows, or all mappings, those with most first. */
void map_sort_rows(struct map_row *rows, size_t count, enum map_order order);
void map_sort_regions(struct map *map, enum map_order order);
/* Sums up the tasks of one program, in place: the new count. */
size_t map_group(struct map_row *rows, size_t count);
const char *map_kind_name(enum map_kind kind);
const char *map_owner_name(enum map_owner owner);
/* "root", "task 3", into text, which is returned. */
enum { MAP_LABEL = 32 };
char *map_label(char text[MAP_LABEL], enum map_owner owner, unsigned slot,
                const struct ps_task *task);

/* table.c: as tables; the rows and mappings are sorted and grouped for it. */
void map_print(FILE *out, unsigned width, struct map *map, struct map_row *rows, size_t count,
               const struct map_view *view);
/* As an element of a JSON array; with `all` every mapping. */
struct output_json;
void map_write(struct output_json *json, const struct map *map, const struct map_row *rows,
               size_t count, int all);

/* svg.c: draws the rows. */
void map_draw(FILE *out, const struct map *map, const struct map_row *rows, size_t count);

#endif
