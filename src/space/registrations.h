/* src/space/registrations.h: memory of other members that a member has registered with a device.
 *
 * Libraries for RDMA keep registrations of memory and learn that it is unmapped by hooks in their
 * own task's libc. If another task unmaps it, they hear nothing: their next transfer reads or
 * writes pages that are no longer mapped, and reports success. Therefore a member's registrations
 * of memory outside its own range are recorded (agent/registrations.c sees the calls), and a member
 * that is about to unmap or discard such memory posts a notice to the registrant. The registrant's
 * notifier, a thread of its own libc, calls that libc's munmap for the notice: the hooks hear it,
 * and the system call behind them does nothing. Then the memory goes.
 *
 * A notice is one word, an interval as in space/intervals.h:
 *
 *   0 -> interval              an owner's thread, the reaper, or a registrant with a full table
 *   interval -> interval | 1   the notifier: delivery has begun, and the records are removed
 *   interval | 1 -> 0          the notifier: the hooks have heard
 *   any -> 0                   the reaper, when the registrant has ended; a spawner, for a new task
 *
 * So an owner or registrant that is killed leaves nothing half done. Owners wait until no notice of
 * theirs is left. The reaper does not wait: a record or notice holds the memory of an ended member
 * like an import (space/holds.c). The model tests/models/registrations.pml has both. A notifier
 * whose hooks unmap memory that others have registered waits only until it has posted, because two
 * would wait for each other.
 *
 * Owners search the records without a lock, and a search may miss a record that another thread
 * splits or merges meanwhile. `changes` is odd during such a change: a search that has seen it
 * change counts as a hit, since a notice too many is harmless.
 *
 * Freestanding. */
#ifndef ONESPACE_SPACE_REGISTRATIONS_H
#define ONESPACE_SPACE_REGISTRATIONS_H

#include <stdatomic.h>
#include <stdint.h>

#include "space/layout.h"

struct space;
struct space_slot;

enum { REGISTRATION_NOTICES = 32 };

enum notifier_state {
    NOTIFIER_NONE,
    NOTIFIER_STARTING, /* a thread of the member creates it */
    NOTIFIER_RUNNING,
    NOTIFIER_FAILED, /* the libc's munmap does not come back to us: nothing is recorded */
    NOTIFIER_ENDED,  /* the program exits */
};

/* A registrant's part. The records themselves are its INTERVALS_REGISTERED. */
struct space_registrations {
    _Atomic uint32_t notifier;   /* futex: enum notifier_state. By the member; reaper: -> NONE */
    _Atomic int32_t tid;         /* of the notifier */
    _Atomic uint32_t has_warned; /* sticky: a message about this member was printed */
    _Atomic uint32_t posted, delivered; /* futexes: incremented after a post; after a delivery */
    /* No fewer than there are notices: raised before a post, lowered after a delivery. The slot's
     * next task begins with what is left. */
    _Atomic uint32_t notice_count;
    _Atomic uint32_t changes; /* of the records, with the member's lock held; odd during one */
    /* Bounds of the records, extended before one is added. With the member's lock held. Owners
     * outside of the bounds need not search the records. */
    _Atomic uintptr_t low, high;
    /* The memory that the notifier delivers now, 0: none. By the notifier. */
    _Atomic uintptr_t delivering, delivering_end;
    /* Starts the notifier: a function of the agent, which runs on a thread of the task. 0 where
     * there is no agent. */
    uintptr_t start_notifier;
    _Alignas(64) _Atomic uint64_t notices[REGISTRATION_NOTICES];
};

/* The notifier runs this. `unmap` calls the libc's munmap. Returns when the notifier is the last
 * thread of its process, which then ends as if the notifier had not been there. */
void registrations_deliver(struct space *space, struct space_slot *self,
                           void (*unmap)(uintptr_t start, uintptr_t bytes));
/* Whether a munmap with these arguments is the notifier's, for the notice in delivery. */
int registrations_is_delivery(const struct space_slot *self, uintptr_t start, uintptr_t bytes);
/* The program exits: its libraries will be finalised, and must hear nothing any more. Waits until a
 * delivery has ended, ten seconds at most. */
void registrations_stop(struct space *space, struct space_slot *self);

/* The calling member registers [start, start + bytes) with a device, or has done so: records what
 * lies outside its range. Starts the notifier with the first record, by calls of the libc: not at a
 * patch site, where the program may use vector registers. */
void registrations_add(struct space *space, struct space_slot *self, uintptr_t start,
                       uintptr_t bytes);

/* The caller, a thread of `self`, is about to unmap [start, end), whole pages, or to discard its
 * contents: tells all members that have registered some of it, and waits until they have heard.
 * NOTIFY_OTHERS: `self` hears by its own libc. Returns 0, or -ETIMEDOUT if a member has not heard
 * within ten seconds. Not with a lock held. */
enum registrations_audience { NOTIFY_OTHERS, NOTIFY_ALL };
long registrations_notify(struct space *space, const struct space_slot *self,
                          enum registrations_audience audience, uintptr_t start, uintptr_t end);
/* Whether registrations_notify may have anything to do: one load where no member of the space has
 * ever registered memory of another. */
int registrations_exist(const struct space *space);

/* By the reaper, for a member that has ended or left: whether registrations of others hold its
 * memory. If so, they are told, and reaper_recheck is called when they have heard. */
int registrations_hold(struct space *space, const struct space_slot *owner);
/* By the reaper, for a member that has ended or left: forgets what it had registered. Returns
 * whether that may have held other members' memory. */
int registrations_end(struct space *space, struct space_slot *slot);
/* Before a slot's next task runs. */
void registrations_clear(struct space_slot *slot);

#endif
