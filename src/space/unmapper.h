/* src/space/unmapper.h: a thread of the reaper that unmaps what ended tasks had.
 *
 * munmap may wait for others: for the reader of a userfaultfd that watches the memory and wants to
 * know when it goes (another task, which may be stopped), or for the driver of a device. The reaper
 * must not wait with it, because then no task of the space could start or be reaped. So it posts
 * runs (slots whose memory is GOING, or channels that are being freed), and this thread unmaps one
 * after the other; what the thread has finished the reaper takes back in its next round. The thread
 * begins with the first run. Where a filter forbids it the reaper unmaps by itself.
 *
 * All functions are the reaper's. Freestanding. */
#ifndef ONESPACE_SPACE_UNMAPPER_H
#define ONESPACE_SPACE_UNMAPPER_H

#include "registry/space.h"

/* Adjacent slots, which one munmap can unmap together; or, from UNMAPPER_CHANNELS on, a channel of
 * onespace/insitu.h. A run is posted again only after it is finished. */
enum { UNMAPPER_CHANNELS = LAYOUT_SLOTS, UNMAPPER_RUNS = 2 * LAYOUT_SLOTS };
struct unmapper_run {
    uint16_t first, count;
    void (*unmap)(struct space *space, struct unmapper_run run);  /* by the thread */
    void (*finish)(struct space *space, struct unmapper_run run); /* by the reaper, afterwards */
};

/* The reaper of a fresh space begins: nothing is posted. */
void unmapper_begin(void);
/* Has the run unmapped, by the thread, or right now if there can be none. */
void unmapper_post(struct space *space, struct unmapper_run run);
/* Waits until all that was posted is done, `ns` at most. Does not wait if an earlier wait has timed
 * out and the thread is still at the same run. */
void unmapper_await(uint64_t ns);
/* Finishes all runs that are unmapped. */
void unmapper_finish(struct space *space);

#endif
