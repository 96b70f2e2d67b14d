/* cmd/doctor/ranks.c: whether so many ranks fit on this node, and what to raise if they do not. */
#include "cmd/doctor/doctor.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "host/room/room.h"
#include "onespace.h"

enum { NEARLY = 4 }; /* a quarter of the memory is to stay free */

static void say(enum room_kind kind, const struct room *room, unsigned ranks)
{
    char fix[sizeof(room->fix) + 2], there[64];
    /* Of memory the programs' own data needs some, too. */
    uint64_t spare = kind == ROOM_MEMORY ? room->there / NEARLY : 0;
    enum doctor_status status = room->least > room->there            ? DOCTOR_WRONG
                                : room->likely > room->there - spare ? DOCTOR_WARNING
                                                                     : DOCTOR_GOOD;
    snprintf(fix, sizeof(fix), "%c%s.", toupper((unsigned char)room->fix[0]), room->fix + 1);
    if (room->there == ROOM_UNLIMITED)
        snprintf(there, sizeof(there), "there is no limit");
    else
        snprintf(there, sizeof(there), "%" PRIu64 "%s there: about %u MPI ranks", room->there,
                 room->unit, room->fit_likely);
    doctor_say(status, room->what, status == DOCTOR_GOOD ? NULL : fix,
               "%u ranks need %" PRIu64 "%s at least, of an MPI program about %" PRIu64
               "%s; %s (%s)",
               ranks, room->least, room->unit, room->likely, room->unit, there, room->limit);
}

void doctor_ranks(unsigned ranks)
{
    struct room room;
    if (ranks > ONESPACE_TASKS_MAX)
        doctor_say(DOCTOR_WRONG, "tasks", "Start fewer ranks on the node.",
                   "%u ranks: one space holds %d", ranks, ONESPACE_TASKS_MAX);
    for (unsigned kind = 0; kind < ROOM_KINDS; kind++) {
        room_look(kind, ranks, &room);
        say(kind, &room, ranks);
    }
}
