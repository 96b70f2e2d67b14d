/* src/host/room/mappings.h: how many mappings the space of this process has, and whether those that
 * the kernel allows are used up. */
#ifndef ONESPACE_HOST_ROOM_MAPPINGS_H
#define ONESPACE_HOST_ROOM_MAPPINGS_H

#include <stdint.h>

struct mappings {
    uint64_t most_there; /* vm.max_map_count, or UINT64_MAX when it is not told */
    uint64_t used;
    uint64_t largest; /* of the task that has most; 0: there is none */
};

/* Reads /proc/self/maps, which holds up all changes of the space's mappings meanwhile. Allocates
 * nothing. */
void mappings_count(struct mappings *mappings);

/* Whether there are none left, or as few as one start or one freed block gives back. */
int mappings_are_gone(const struct mappings *mappings);

/* vm.max_map_count, or UINT64_MAX. */
uint64_t mappings_allowed(void);

#endif
