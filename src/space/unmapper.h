/* src/space/unmapper.h: a thread of the reaper that unmaps what ended tasks had.
 *
 * munmap may wait for others: for the reader of a userfaultfd that watches the memory and wants to
 * know when it goes (another task, which may be stopped), or for the driver of a device. The reaper
 * must not wait with it, because then no task of the space could start or be reaped. So it posts
 * runs of slots, whose memory is GOING, and this thread unmaps one after the other; what the thread
 * has finished the reaper takes back in its next round. The thread begins with the first run. Where
 * a filter forbids it the reaper unmaps by itself.
 *
 * All functions are the reaper's. Freestanding. */
#ifndef ONESPACE_SPACE_UNMAPPER_H
#define ONESPACE_SPACE_UNMAPPER_H

#include "registry/space.h"

/* Adjacent slots, which one munmap can unmap together. */
struct unmapper_run {
    uint16_t first, count;
};

/* The reaper of a fresh space begins: nothing is posted. */
void unmapper_begin(void);
/* Has `unmap` called for the run, by the thread, or right now if there can be none. */
void unmapper_post(struct space *space, struct unmapper_run run,
                   void (*unmap)(struct space *space, struct unmapper_run run));
/* Waits until all that was posted is done, `ns` at most. Does not wait if an earlier wait has timed
 * out and the thread is still at the same run. */
void unmapper_await(uint64_t ns);
/* A run that is done and was not returned before; count 0: there is none. */
struct unmapper_run unmapper_next_done(void);

#endif
