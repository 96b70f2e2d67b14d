/* src/steer/foreign.c: remember mappings outside the task's range, to unmap them at its end.
 *
 * An entry that outlives its mapping would one day unmap a stranger's memory, so removal may not
 * fail. The lock belongs to the task's threads; the keeper reads the table after all are gone and
 * does not take it. Signals stay blocked while it is held: a handler may map memory. */
#include "steer/steer.h"

#include <signal.h>

static int is_my_thread(uint32_t thread)
{
    return raw(__NR_tgkill, raw(__NR_getpid), thread, 0) == 0;
}

uint64_t steer_lock(struct space_steer *steer)
{
    uint64_t all = ~UINT64_C(0), signals = 0;
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &all, &signals, sizeof(all));
    uint32_t me = (uint32_t)raw(__NR_gettid), free = 0;
    /* Acquire pairs with the release in steer_unlock. */
    while (!atomic_compare_exchange_weak_explicit(&steer->lock, &free, me, memory_order_acquire,
                                                  memory_order_relaxed)) {
        /* In a forked child the owner may be a thread that was not forked: take over from it. */
        if (free && (space_marked() || is_my_thread(free))) {
            free = 0;
            raw(__NR_sched_yield);
        }
    }
    return signals;
}

void steer_unlock(struct space_steer *steer, uint64_t signals)
{
    atomic_store_explicit(&steer->lock, 0, memory_order_release);
    raw(__NR_rt_sigprocmask, SIG_SETMASK, &signals, NULL, sizeof(signals));
}

static void store_entry(struct space_steer *steer, uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < SPACE_FOREIGN_MAX; i++) {
        if (steer->foreign[i].end == 0) {
            steer->foreign[i].start = start;
            steer->foreign[i].end = end;
            return;
        }
    }
    space_count(&steer->foreign_lost, 1);
    space_count(&space_registry()->overflows.mappings, 1);
}

static void cut_entries(struct space_steer *steer, uintptr_t start, uintptr_t end)
{
    for (unsigned i = 0; i < SPACE_FOREIGN_MAX; i++) {
        struct space_foreign *entry = &steer->foreign[i], old = *entry;
        if (old.end <= start || old.start >= end)
            continue;
        entry->end = 0;
        if (old.start < start)
            store_entry(steer, old.start, start);
        if (old.end > end)
            store_entry(steer, end, old.end);
    }
}

void steer_foreign_add(struct space_slot *self, uintptr_t start, size_t size)
{
    /* A forked child's mappings end with it; what lies in another task's range, as when this task
     * spawns, is that task's. */
    if (!space_marked() || layout_slot_of(start) != LAYOUT_SLOTS)
        return;
    uint64_t signals = steer_lock(&self->steer);
    cut_entries(&self->steer, start, start + size); /* MAP_FIXED over an older one */
    store_entry(&self->steer, start, start + size);
    steer_unlock(&self->steer, signals);
}

long steer_foreign_mmap(struct space_slot *self, const long a[6])
{
    /* Locked around the call: a task that is killed between a mapping and its entry leaves the
     * mapping behind for good. */
    uint64_t signals = steer_lock(&self->steer);
    long result = raw_syscall6(__NR_mmap, a[0], a[1], a[2], a[3], a[4], a[5]);
    uintptr_t start = (uintptr_t)result,
              size = ((uintptr_t)a[1] + ARCH_PAGE - 1) & -(uintptr_t)ARCH_PAGE;
    if ((unsigned long)result < -4095ul && space_marked() &&
        layout_slot_of(start) == LAYOUT_SLOTS) {
        cut_entries(&self->steer, start, start + size); /* MAP_FIXED over an older one */
        store_entry(&self->steer, start, start + size);
    }
    steer_unlock(&self->steer, signals);
    return result;
}

void steer_foreign_remove(struct space_slot *self, uintptr_t start, size_t size)
{
    if (!space_marked())
        return;
    uint64_t signals = steer_lock(&self->steer);
    cut_entries(&self->steer, start, start + size);
    steer_unlock(&self->steer, signals);
}

void steer_foreign_forget(struct space_slot *self, uintptr_t start)
{
    if (!space_marked())
        return;
    uint64_t signals = steer_lock(&self->steer);
    for (unsigned i = 0; i < SPACE_FOREIGN_MAX; i++)
        if (self->steer.foreign[i].end && self->steer.foreign[i].start == start)
            self->steer.foreign[i].end = 0;
    steer_unlock(&self->steer, signals);
}
