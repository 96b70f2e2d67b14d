/* src/interpose/memory/dontfork.c: MADV_DONTFORK and MADV_DOFORK, counted by task.
 *
 * The kernel has one mark for memory that forked children do not get, for all tasks: RDMA libraries
 * set it on what they have registered, since a page that is copied after a fork is not the one that
 * the card knows. Any task's fork would do that, so the mark must stay as long as one task wants
 * it. The marks of each task are noted. MADV_DOFORK reaches the kernel for what no other task has
 * marked, and the reaper does the same for a task that has ended. */
#include "interpose/memory/memory.h"

#include <linux/mman.h>
#include <sys/mman.h>

#include "base/page.h"
#include "base/raw.h"
#include "space/intervals.h"
#include "space/locks.h"

static long unmark(struct space_slot *self, uintptr_t start, uintptr_t end)
{
    uint64_t signals = member_lock(self);
    (void)intervals_cut(self, INTERVALS_DONTFORK, start, end, 0);
    long result = intervals_unmark_dontfork(space_registry(), self, start, end);
    member_unlock(self, signals);
    return result;
}

/* Where the table is full the mark is the kernel's alone, and any task can take it away. */
static long mark(struct space_slot *self, const long a[6], uintptr_t start, uintptr_t end)
{
    uint64_t signals = member_lock(self);
    (void)intervals_add(self, INTERVALS_DONTFORK, start, end);
    long result = raw(__NR_madvise, a[0], a[1], a[2]);
    member_unlock(self, signals);
    return result;
}

long interpose_madvise(struct space_slot *self, long nr, const long a[6])
{
    uintptr_t start = (uintptr_t)a[0], end = start + page_ceiling((size_t)a[1]);
    int is_plain = (a[2] == MADV_DONTFORK || a[2] == MADV_DOFORK) && process_in_space() &&
                   start % ARCH_PAGE == 0 && end > start;
    if (!is_plain)
        return raw(nr, a[0], a[1], a[2]);
    return a[2] == MADV_DONTFORK ? mark(self, a, start, end) : unmark(self, start, end);
}

/* What is mapped anew is not marked; what mremap moves stays so. */
void dontfork_note(struct space_slot *self, long nr, const long a[6], long result)
{
    uintptr_t start = (uintptr_t)a[0], end = start + page_ceiling((size_t)a[1]);
    uint64_t signals;
    if (nr != __NR_munmap && nr != __NR_mremap && !(nr == __NR_mmap && (a[3] & MAP_FIXED)))
        return;
    signals = member_lock(self);
    int was_marked = nr == __NR_mremap && intervals_overlap(self, INTERVALS_DONTFORK, start, end);
    (void)intervals_cut(self, INTERVALS_DONTFORK, start, end, 0);
    if (was_marked)
        (void)intervals_add(self, INTERVALS_DONTFORK, (uintptr_t)result,
                            (uintptr_t)result + page_ceiling((size_t)a[2]));
    member_unlock(self, signals);
}
