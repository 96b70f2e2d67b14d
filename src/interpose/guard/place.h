/* src/interpose/guard/place.h: what lies at an address of a task: for messages. Freestanding. */
#ifndef ONESPACE_INTERPOSE_GUARD_PLACE_H
#define ONESPACE_INTERPOSE_GUARD_PLACE_H

#include "space/registry.h"

enum { PLACE_NAME = 48 };

struct place {
    /* The last file before it that is mapped from its beginning, in the same task's range: name,
     * empty if there is none; where its mapping begins. */
    char file[PLACE_NAME];
    uintptr_t file_start;
    int follows_guard; /* the page before its mapping is inaccessible: as of threads' stacks */
};

/* From /proc/self/maps, if that can be read. */
void place_find(uintptr_t address, struct place *place);
/* Appends what that is in the owner's range: "the heap". */
char *place_say(char *text, const struct place *place, const struct space_slot *owner,
                uintptr_t address);

#endif
