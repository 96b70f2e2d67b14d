/* src/host/job/departure.c: see departure.h. */
#include "host/job/departure.h"

#include <stdio.h>

#include "space/registry.h"

int departure_say(int id, const char *program, char *text, size_t size)
{
    const struct space_departure *departure = &space_registry()->departure;
    if (atomic_load_explicit(&departure->state, memory_order_acquire) != FILE_READY ||
        departure->id != id)
        return 0;
    snprintf(
        text, size,
        "%.200s left the space: it executed %.200s, which ran as an ordinary process; if that is "
        "to be a task, name it after onespace run (`onespace check` says whether it can be one)",
        program, departure->path);
    return 1;
}
