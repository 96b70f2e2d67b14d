/* cmd/lib/watch.h: repeats what a command shows, like watch(1). */
#ifndef ONESPACE_CMD_LIB_WATCH_H
#define ONESPACE_CMD_LIB_WATCH_H

#include <stdio.h>

/* Seconds from the argument of `--watch`, NULL: 2. -1 after a message when it is no number from 0.1
 * to 86400. */
double watch_seconds(const char *command, const char *argument);

/* Shows it once when `seconds` is 0, else again and again. `show` prints to `out` for a terminal of
 * `width` columns (0: no limit) and returns 0; another value ends it and is returned. On a terminal
 * each look replaces the one before and is cut to the terminal's lines. */
int watch(double seconds, int (*show)(FILE *out, unsigned width, void *context), void *context);

#endif
