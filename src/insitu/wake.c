/* src/insitu/wake.c: see wake.h. */
#include "insitu/wake.h"

#include <errno.h>

#include "insitu/handle.h"
#include "space/member.h"

/* Spin for as long as a step takes to be passed back and forth, and sleep after that. Waking a
 * sleeper costs the other side a system call, and on a virtual machine much more. */
enum { SPIN_NS = 100 * 1000, NAPS_NS = 10 * 1000 * 1000 };

static void arm(struct insitu_wait *wait, struct insitu_bell *bell)
{
    wait->rings = atomic_load(&bell->rings);
    atomic_store(&bell->wanted, 1);
    wait->is_armed = 1;
}

static int sleep_a_while(struct insitu_wait *wait, struct insitu_bell *bell)
{
    uint64_t slice = futex_deadline(INSITU_SLICE_MS);
    futex_wait(&bell->rings, wait->rings, wait->deadline < slice ? wait->deadline : slice);
    /* The caller tests its condition once more after the deadline. */
    wait->is_over = wait->deadline != UINT64_MAX && futex_now_ns() >= wait->deadline;
    return reaper_is_alive(space_registry())
               ? 0
               : insitu_fail(-EOWNERDEAD, "the reaper of the space was killed");
}

/* Naps if that is allowed and it is too early to be woken; else returns 0. */
static int nap(struct insitu_wait *wait)
{
    static const uint32_t nobody_wakes;
    uint64_t now = futex_now_ns(), waited = now - wait->spin.began, end = now + waited / 4;
    if (!wait->may_nap || wait->is_armed || waited > NAPS_NS)
        return 0;
    futex_wait(&nobody_wakes, 0, end < wait->deadline ? end : wait->deadline);
    wait->is_over = end >= wait->deadline;
    return 1;
}

int insitu_wait_more(struct insitu_wait *wait, struct insitu_bell *bell)
{
    int result = 0;
    if (wait->timeout_ms == 0 || wait->is_over)
        return -ETIMEDOUT;
    if (wait->spin.count == 0)
        wait->deadline = futex_deadline(wait->timeout_ms);
    if (!wait->is_armed && spin_pause_ns(&wait->spin, SPIN_NS))
        return 0;
    if (nap(wait))
        return 0;
    if (wait->is_armed)
        result = sleep_a_while(wait, bell);
    arm(wait, bell);
    return result;
}
