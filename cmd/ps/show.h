/* cmd/ps/show.h: what `onespace ps` prints, and in which order. */
#ifndef ONESPACE_CMD_PS_SHOW_H
#define ONESPACE_CMD_PS_SHOW_H

#include <stdio.h>

#include "cmd/ps/ps.h"

enum show_order { SHOW_BY_ID, SHOW_BY_MEMORY, SHOW_BY_TIME };

/* More members than this are summed up by program and state, unless all are asked for. */
enum { SHOW_MANY = 20 };

/* Tasks with one program and one state. */
struct show_group {
    const struct ps_task *first;   /* of the group */
    const struct ps_task *largest; /* the one with the most memory; NULL: not known */
    unsigned count;
    double seconds, cpu_seconds; /* the longest; the sum; -1: not known */
    struct ps_memory memory;     /* sums */
    uint64_t copied_bytes;
};

/* order.c: sorts the tasks, those with most first; the root stays the first. */
void show_sort(struct ps_space *space, enum show_order order);
/* order.c: the groups, the root's first; NULL: out of memory. The caller frees them. */
struct show_group *show_groups(const struct ps_space *space, enum show_order order,
                               unsigned *count);
/* What the task uses that would be free without it, swapped pages included. */
uint64_t show_used(const struct ps_task *task);

/* table.c, json.c */
void show_table(FILE *out, unsigned width, const struct ps_space *space, enum show_order order,
                int all);
struct output_json;
void show_json(struct output_json *json, const struct ps_space *space);

/* shortage.c: says whether the memory that the space may use is nearly full, and which task uses
 * most of it: a line, or nothing; an object named "shortage", or null. */
void shortage_print(FILE *out, unsigned width, const struct ps_space *space);
void shortage_json(struct output_json *json, const struct ps_space *space);

/* unmapping.c: says what the unmapping of an ended task's memory waits for, if it has taken longer
 * than a second: a line, or nothing; an object named "unmapping", or null. */
void unmapping_print(FILE *out, unsigned width, const struct ps_space *space);
void unmapping_json(struct output_json *json, const struct ps_space *space);

#endif
