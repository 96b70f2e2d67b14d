/* src/host/room/room.h: whether this machine has room for that many ranks in one space, and which
 * limit to raise.
 *
 * What a rank needs was measured (docs/measurements/many-ranks.md): `least` is what the smallest
 * program takes, so that more ranks cannot run whatever they are; `likely` is what an MPI program
 * takes. */
#ifndef ONESPACE_HOST_ROOM_H
#define ONESPACE_HOST_ROOM_H

#include <stddef.h>
#include <stdint.h>

enum room_kind { ROOM_DESCRIPTORS, ROOM_MAPPINGS, ROOM_PROCESSES, ROOM_MEMORY, ROOM_KINDS };

#define ROOM_UNLIMITED UINT64_MAX

struct room {
    const char *what;  /* runs out: a noun in the plural, or a mass noun */
    const char *limit; /* where that is set */
    const char *unit;  /* of the numbers: " MiB", or empty */
    uint64_t there;    /* or ROOM_UNLIMITED */
    uint64_t least, likely;
    unsigned fit_least, fit_likely; /* how many ranks fit */
    char fix[160];                  /* how to make room for `ranks`: a sentence without its stop */
};

/* What `ranks` ranks need of a kind, and what is there. */
void room_look(enum room_kind kind, unsigned ranks, struct room *room);

/* Whether mappings suffice for so many MPI ranks only if these load less than they usually do. */
int room_is_short(unsigned ranks);

/* Who starts the ranks: the host of a space needs a descriptor for each. */
enum room_starter { ROOM_BY_HAND, ROOM_BY_HOST };

/* Before the first rank starts. 0: there is room. 1: not for an MPI program, with a warning.
 * -EAGAIN: there is none, with a message. */
int room_check(enum room_starter starter, unsigned ranks, char *message, size_t size);

/* Completes the message of a rank that could not be started for lack of something: what ran out,
 * how many ranks there is room for, how to raise it. started: those that run. Leaves other errors'
 * as they are. */
void room_explain(int error, unsigned started, unsigned ranks, char *message, size_t size);

/* Appends to `message` that mappings have run out in the space of this process, how many ranks of
 * this program there are enough for, and how to raise it. Whether none are left, or next to none.
 */
int room_say_mappings(unsigned running, unsigned ranks, char *message, size_t size);

#endif
