/* src/interpose/aio.c: contexts of asynchronous I/O (io_setup) end with their task.
 *
 * A context belongs to the address space, and the kernel destroys it with that: a task that is
 * killed, or ends without io_destroy, would leave its contexts, which count against fs.aio-max-nr,
 * and their rings to the space. So each task's contexts are noted, and the unmapper destroys them.
 *
 * A context's name is the address of its ring, which is page aligned: an interval of one page. The
 * table may outlive a context, if the program destroys it by a call that is not interposed, and the
 * kernel may give the same name to another task's then. So whoever gets a name takes it out of all
 * other tables, and nothing is destroyed twice under one name. */
#include <errno.h>

#include "base/page.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"
#include "interpose/pointers.h"
#include "space/intervals.h"
#include "space/locks.h"

static void forget(uintptr_t context)
{
    struct space *space = space_registry();
    uint32_t highest = atomic_load_explicit(&space->highest, memory_order_relaxed);
    for (uint32_t i = 0; i <= highest; i++)
        if (intervals_used(&space->slots[i], INTERVALS_AIO))
            (void)intervals_cut(&space->slots[i], INTERVALS_AIO, context, context + ARCH_PAGE, 0);
}

/* Locked around the call, with signals blocked: a thread that is killed between the call and the
 * entry leaves the context. A forked child's contexts are its own memory's. */
long interpose_io_setup(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t context;
    if (!process_in_space())
        return raw(nr, a[0], a[1]);
    uint64_t signals = member_lock(self);
    long result = raw(nr, a[0], a[1]);
    if (result == 0 &&
        interpose_copy_from_user(&context, (const void *)a[1], sizeof(context)) == 0 &&
        page_floor(context) == context) {
        forget(context);
        (void)intervals_add(self, INTERVALS_AIO, context, context + ARCH_PAGE);
    }
    member_unlock(self, signals);
    return result;
}

/* The entry goes first: once destroyed, the name may be another task's. The call waits for requests
 * in flight, so it is made without the lock. */
long interpose_io_destroy(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t context = (uintptr_t)a[0];
    if (process_in_space() && context && page_floor(context) == context) {
        uint64_t signals = member_lock(self);
        forget(context);
        member_unlock(self, signals);
    }
    return raw(nr, a[0]);
}
