/* src/host/job/departure.h: tells users of a task that left the space. */
#ifndef ONESPACE_HOST_DEPARTURE_H
#define ONESPACE_HOST_DEPARTURE_H

#include <stddef.h>

/* Whether the task that has ended is the first of the space that executed another program: then
 * says so in `text`, and what to do. In a process of the space. */
int departure_say(int id, const char *program, char *text, size_t size);

#endif
