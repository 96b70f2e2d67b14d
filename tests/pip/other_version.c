/* tests/pip/other_version.c: the state of a PiP root with another version of the library. */
#include "other_version.h"

#include <stdlib.h>

#include "pip/state.h"

void *other_version_make(void)
{
    struct state *state = calloc(1, sizeof(*state) + 2 * sizeof(struct record));
    if (!state)
        return NULL;
    state->header = (struct shared_header){.magic = STATE_MAGIC, .size = sizeof(*state), .tag = 1};
    state->ntasks = 1;
    return state;
}

void *other_version_record(void *state)
{
    return ((struct state *)state)->records;
}

const char *other_version_name(void)
{
    return STATE_EXPORT;
}
