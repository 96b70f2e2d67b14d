/* cmd/lib/overflows.h: reports tables of the registry that were full when they were needed. */
#ifndef ONESPACE_CMD_LIB_OVERFLOWS_H
#define ONESPACE_CMD_LIB_OVERFLOWS_H

#include <stdio.h>

#include "cmd/lib/output.h"
#include "space/registry.h"

/* A line for each kind that occurred, with the consequence. Returns how many. `prefix`
 * comes before each line, which is wrapped at `width`. */
unsigned overflows_print(FILE *out, unsigned width, const char *prefix,
                         const struct space_overflows *overflows);
/* A line for a task that made mappings which were not remembered. */
void overflows_print_forgotten(FILE *out, const char *prefix, int id, int pid, unsigned count);
/* The same as an object named "overflows", with all kinds. */
void overflows_json(struct output_json *json, const struct space_overflows *overflows);

#endif
