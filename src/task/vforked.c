/* src/task/vforked.c: see vforked.h. */
#include "task/vforked.h"

#include "base/numbers.h"
#include "space/holds.h"
#include "task/presence.h"

enum { VFORKED_MAX = 64, POLL_NS = 1000000 };

/* Those that were found last, VFORKED_MAX at most: whoever is missing is found when these are gone.
 */
static int32_t vforked[VFORKED_MAX];
static unsigned vforked_count, held_count;
static uint8_t held[LAYOUT_SLOTS];

void vforked_begin(void)
{
    vforked_count = held_count = 0;
    for (unsigned i = 0; i < LAYOUT_SLOTS; i++)
        held[i] = 0;
}

static int is_known(const struct space *space, int32_t pid)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 0; i <= highest; i++)
        if (atomic_load_explicit(&space->pids[i], memory_order_relaxed) == pid)
            return 1;
    return pid == atomic_load(&space->reaper_pid);
}

static void note_if_vforked(void *context, int pid, int directory)
{
    const struct space *space = context;
    (void)directory;
    if (vforked_count < VFORKED_MAX && presence_of(space, pid) == PRESENCE_HERE &&
        !is_known(space, pid))
        vforked[vforked_count++] = pid;
}

/* Without /proc none is found. */
static void find_vforked(struct space *space)
{
    vforked_count = 0;
    (void)numbers_each("/proc", note_if_vforked, space);
}

static void drop_departed(const struct space *space)
{
    unsigned left = 0;
    for (unsigned i = 0; i < vforked_count; i++)
        if (presence_of(space, vforked[i]) == PRESENCE_HERE)
            vforked[left++] = vforked[i];
    vforked_count = left;
}

static void release_all(struct space *space)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        if (held[i])
            (void)holds_give(space, &space->slots[i], &space->slots[i]);
        held[i] = 0;
    }
    held_count = 0;
}

void vforked_hold(struct space *space, struct space_slot *const *killed, unsigned count)
{
    if (count == 0)
        return;
    find_vforked(space);
    for (unsigned i = 0; vforked_count && i < count; i++) {
        if (holds_take(space, killed[i], killed[i]) != 0)
            continue;
        held[space_slot_index(space, killed[i])] = 1;
        held_count++;
    }
}

uint64_t vforked_watch(struct space *space)
{
    if (held_count == 0)
        return 0;
    drop_departed(space);
    if (vforked_count == 0)
        find_vforked(space);
    if (vforked_count == 0)
        release_all(space);
    return held_count ? POLL_NS : 0;
}
