/* src/space/holds.c: holds on a member's memory, and unmapping the memory of ended members.
 *
 * holds[owner][holder] counts the holds that one member has on another's memory. Only the holder
 * changes its cell; the reaper zeroes it when the holder has ended. The owner's word `memory` and
 * the cells decide together (all sequentially consistent):
 *
 *   holder:  cell++                         reaper:  memory PRESENT -> CHECKING
 *            wait while memory CHECKING              any cell of the row set? back to PRESENT
 *            memory PRESENT? it is held              else UNMAPPING: unmap, memory NONE
 *            else release, -EOWNERDEAD
 *
 * At least one of the two sees the other. The holder waits until the check has ended, because only
 * then is it decided whether the memory stays.
 *
 * To release, the holder decrements its cell and then reads the owner's `reclaim_pending`; if that
 * is set, the holder makes the reaper check again. The reaper sets `reclaim_pending` and then reads
 * the cells, so memory is not kept for a cell that is 0 again, such as that of a holder that
 * failed. Releasing a living member's memory costs no system call, whatever other memory is still
 * held.
 *
 * A layer above can hold memory without a cell: its hook holds_memory says so. A registration with
 * a device holds it until the registrant has heard (space/registrations.h).
 *
 * Freestanding: part of it runs in the reaper. */
#include "space/member.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "arch/syscall.h"
#include "base/delay.h"
#include "base/futex.h"
#include "base/page.h"
#include "base/raw.h"
#include "onespace.h"
#include "space/intervals.h"
#include "space/locks.h"
#include "space/shared_mappings.h"

enum { CHECKING_WAIT_NS = 1000000, UNMAP_WAIT_NS = 50000000 };

/* ---- Holds ---- */

/* Whether the memory stays mapped, for a caller that has raised its cell. The reaper wakes no
 * waiter when its check ends, because the check takes no longer than a wake-up would. */
static int await_check(const struct space *space, const struct space_slot *owner)
{
    uint32_t memory;
    while ((memory = atomic_load(&owner->memory)) == MEMORY_CHECKING &&
           !(atomic_load(&space->reaper_word) & FUTEX_OWNER_DIED))
        futex_wait(&owner->memory, MEMORY_CHECKING, futex_now_ns() + CHECKING_WAIT_NS);
    return memory == MEMORY_PRESENT;
}

static _Atomic uint32_t *cell_of(struct space *space, const struct space_slot *owner,
                                 const struct space_slot *holder)
{
    return &space->holds[slot_index(space, owner)][slot_index(space, holder)];
}

/* A cell has two counters: holds in its lower bits, copies above. `unit` is 1 of the counter,
 * `mask` its bits. */
static long release(struct space *space, struct space_slot *owner, struct space_slot *holder,
                    uint32_t unit, uint32_t mask)
{
    _Atomic uint32_t *cell = cell_of(space, owner, holder);
    uint32_t count = atomic_load(cell);
    do
        if ((count & mask) == 0)
            return -EINVAL;
    while (!atomic_compare_exchange_weak(cell, &count, count - unit));
    DELAY("holds.give");
    if (count == unit && atomic_load(&owner->reclaim_pending))
        reaper_recheck(space);
    return 0;
}

static long take(struct space *space, struct space_slot *owner, struct space_slot *holder,
                 uint32_t unit, uint32_t mask)
{
    _Atomic uint32_t *cell = cell_of(space, owner, holder);
    if (!atomic_load(&owner->was_held)) /* a store would cost more than the rest */
        atomic_store(&owner->was_held, 1);
    if (!atomic_load(&holder->has_held))
        atomic_store(&holder->has_held, 1);
    uint32_t count = atomic_load(cell);
    do {
        if ((count & mask) == mask)
            return -EOVERFLOW;
        DELAY("holds.take");
    } while (!atomic_compare_exchange_weak(cell, &count, count + unit));
    if (slot_index(space, owner) == 0 || await_check(space, owner))
        return 0;
    (void)release(space, owner, holder, unit, mask);
    return -EOWNERDEAD;
}

long hold_take(struct space *space, struct space_slot *owner, struct space_slot *holder)
{
    return take(space, owner, holder, 1, SPACE_HOLDS_IMPORTS);
}

long hold_release(struct space *space, struct space_slot *owner, struct space_slot *holder)
{
    return release(space, owner, holder, 1, SPACE_HOLDS_IMPORTS);
}

long hold_take_for_copy(struct space *space, struct space_slot *owner, struct space_slot *holder)
{
    return take(space, owner, holder, SPACE_HOLDS_COPY, ~(uint32_t)SPACE_HOLDS_IMPORTS);
}

void hold_release_after_copy(struct space *space, struct space_slot *owner,
                             struct space_slot *holder)
{
    (void)release(space, owner, holder, SPACE_HOLDS_COPY, ~(uint32_t)SPACE_HOLDS_IMPORTS);
}

int hold_exists(struct space *space, const struct space_slot *owner,
                const struct space_slot *holder)
{
    return (atomic_load(cell_of(space, owner, holder)) & SPACE_HOLDS_IMPORTS) != 0;
}

void hold_release_all(struct space *space, struct space_slot *holder)
{
    if (!atomic_load(&holder->has_held))
        return;
    unsigned index = slot_index(space, holder);
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t owner = 0; owner <= highest; owner++)
        if (atomic_load(&space->holds[owner][index]))
            atomic_store(&space->holds[owner][index], 0);
    atomic_store(&space->holds_changed, HOLDS_CHANGED);
}

void reaper_recheck(struct space *space)
{
    if (!atomic_load(&space->holds_pending))
        return;
    atomic_store(&space->holds_changed, HOLDS_CHANGED);
    futex_bump(&space->events);
}

/* ---- Unmapping one member's memory ---- */

enum { SMALLEST_PART = 64 * 1024 };

long memory_unmap(uintptr_t start, size_t size)
{
    long result = raw(__NR_munmap, start, size);
    if (result == 0)
        return 0;
    if (size <= SMALLEST_PART) {
        raw(__NR_madvise, start, size, MADV_DONTNEED); /* frees the pages, if that is allowed */
        return result;
    }
    /* The largest power of two below `size`. Ranges are multiples of 4 GiB, so it splits no huge
     * page. */
    size_t part = (size_t)1 << (63 - __builtin_clzll(size - 1));
    long low = memory_unmap(start, part), high = memory_unmap(start + part, size - part);
    return low ? low : high;
}

/* A mapping of huge pages extends to the end of its last page, whatever size was asked for, and
 * munmap refuses every other size. So the first size that munmap accepts is the mapping's. Huge
 * pages have 2 MiB or 1 GiB on x86-64, 64 KiB to 16 GiB on aarch64. */
static void unmap_interval(uintptr_t start, uintptr_t end)
{
    long result = raw(__NR_munmap, start, end - start);
    for (uint64_t huge = LAYOUT_MIB / 16; result == -EINVAL && huge <= 16 * LAYOUT_GIB; huge *= 2)
        result = raw(__NR_munmap, start, round_up(end, huge) - start);
    if (result != 0)
        memory_unmap(start, end - start);
}

/* Clears each word before it unmaps: afterwards another member may map these addresses. A task that
 * was killed right after it had mapped over another's memory may not have cut the other's table. */
static void unmap_out_of_range(struct space *space, struct space_slot *slot)
{
    uint32_t used = intervals_used(slot, INTERVALS_OUT_OF_RANGE);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t word = atomic_exchange(intervals_word(slot, INTERVALS_OUT_OF_RANGE, i), 0);
        if (!interval_is_certain(word))
            continue;
        intervals_remove_from_others(space, slot, interval_start(word), interval_end(word));
        unmap_interval(interval_start(word), interval_end(word));
    }
}

/* Undoes MADV_DONTFORK on other members' memory. */
static void unmark_dontfork(struct space *space, struct space_slot *slot)
{
    uint32_t used = intervals_used(slot, INTERVALS_DONTFORK);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t word = atomic_exchange(intervals_word(slot, INTERVALS_DONTFORK, i), 0);
        if (word && layout_slot_of(interval_start(word)) != slot_index(space, slot))
            (void)intervals_unmark_dontfork(space, slot, interval_start(word), interval_end(word));
    }
}

/* The kernel keeps contexts of asynchronous I/O with the memory that all tasks share. Destroying
 * one waits for its requests in flight, so the caller must not hold the map throttle. It fails for
 * a context that the program has destroyed by a call that is not interposed. */
static void destroy_aio_contexts(struct space_slot *slot)
{
    uint32_t used = intervals_used(slot, INTERVALS_AIO);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t word = atomic_exchange(intervals_word(slot, INTERVALS_AIO, i), 0);
        for (uintptr_t at = interval_start(word); at < interval_end(word); at += ARCH_PAGE)
            raw(__NR_io_destroy, at);
    }
}

/* By the unmapper's thread. One munmap covers adjacent ranges. If it fails because of one mapping
 * that cannot be unmapped, each range is unmapped by itself. */
static void unmap_slots(struct space *space, struct unmapper_job job)
{
    for (unsigned i = job.first; i < job.first + job.count; i++)
        destroy_aio_contexts(&space->slots[i]);
    uint32_t throttle = map_throttle_begin(space);
    for (unsigned i = job.first; i < job.first + job.count; i++) {
        unmark_dontfork(space, &space->slots[i]);
        unmap_out_of_range(space, &space->slots[i]);
        shared_mappings_release_all(space, &space->slots[i]);
    }
    int all = raw(__NR_munmap, layout_range(job.first), job.count * LAYOUT_RANGE) == 0;
    for (unsigned i = job.first; i < job.first + job.count; i++)
        if (!all && memory_unmap(layout_range(i), LAYOUT_RANGE) != 0)
            atomic_store(&space->slots[i].memory, MEMORY_STUCK);
    map_throttle_end(space, throttle);
}

/* By the reaper, when the job is done: frees its slots. The state is read before the memory
 * becomes NONE, because from then on a collector may free the slot. */
static void free_slots(struct space *space, struct unmapper_job job)
{
    for (unsigned i = job.first; i < job.first + job.count; i++) {
        struct space_slot *slot = &space->slots[i];
        int is_aborting = slot_state(slot) == SLOT_ABORTING;
        if (atomic_load(&slot->memory) == MEMORY_STUCK)
            continue;
        atomic_store(&slot->memory, MEMORY_NONE);
        if (is_aborting)
            slot_free(space, slot);
        else
            slot_free_if_done(slot);
    }
}

/* ---- Reclaiming the memory of ended members: the reaper ---- */

static int has_cell_set(struct space *space, unsigned owner)
{
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t holder = 0; holder <= highest; holder++)
        if (atomic_load(&space->holds[owner][holder]))
            return 1;
    return 0;
}

static int announce_and_find_hold(struct space *space, struct space_slot *owner)
{
    int was_held = atomic_load(&owner->was_held) != 0;
    int may_be_registered = registrations_exist(space);
    if (!was_held && !atomic_load(&owner->was_called) && !may_be_registered)
        return 0;
    atomic_store(&space->holds_pending, 1);
    atomic_store(&owner->reclaim_pending, 1);
    DELAY("holds.look");
    if (was_held && has_cell_set(space, slot_index(space, owner)))
        return 1;
    for (const struct member_hooks *const *layer = hooks_of_layers; *layer; layer++)
        if ((*layer)->holds_memory && (*layer)->holds_memory(space, owner))
            return 1;
    /* Last: registrants hear nothing while the memory stays for another reason. */
    return may_be_registered && registrations_hold(space, owner);
}

/* PRESENT -> CHECKING -> UNMAPPING, or back to PRESENT if the memory is held. */
static void mark_unless_held(struct space *space, struct space_slot *owner)
{
    atomic_store(&owner->memory, MEMORY_CHECKING);
    int held = announce_and_find_hold(space, owner);
    atomic_store(&owner->memory, held ? MEMORY_PRESENT : MEMORY_UNMAPPING);
    if (held)
        return;
    if ((owner->flags & ONESPACE_SPAWN_HOLD) || atomic_load(&owner->was_called))
        exports_remove_all(space, owner);
    /* Callers' threads ran in its context until they noticed its end, and may have taken holds. */
    if (atomic_load(&owner->was_called))
        hold_release_all(space, owner);
}

static int is_unmapping(const struct space_slot *owner)
{
    return atomic_load(&owner->memory) == MEMORY_UNMAPPING;
}

void memory_unmap_unless_held(struct space *space, struct space_slot *const *owners, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        mark_unless_held(space, owners[i]);
    for (unsigned first = 0, next; first < count; first = next) {
        next = first + 1;
        if (!is_unmapping(owners[first]))
            continue;
        while (next < count && owners[next] == owners[next - 1] + 1 && is_unmapping(owners[next]))
            next++;
        struct unmapper_job job = {(uint16_t)slot_index(space, owners[first]),
                                   (uint16_t)(next - first), unmap_slots, free_slots};
        unmapper_post(space, job);
    }
    /* Usually the memory is gone when a waiter learns of the end. */
    unmapper_wait(UNMAP_WAIT_NS);
    unmapper_finish(space);
}

int memory_reclaim_is_due(const struct space *space)
{
    uint32_t state = atomic_load(&space->holds_changed);
    return state == HOLDS_SEEN || (state == HOLDS_CHANGED && atomic_load(&space->holds_pending));
}

void memory_reclaim(struct space *space)
{
    unmapper_finish(space);
    /* Again if an owner whose memory goes has held another one's. */
    for (;;) {
        uint32_t changed = HOLDS_CHANGED, seen = HOLDS_SEEN;
        if (!atomic_load(&space->holds_pending) ||
            !atomic_compare_exchange_strong(&space->holds_changed, &changed, HOLDS_SEEN))
            return;
        atomic_store(&space->holds_pending, 0);
        uint32_t highest = atomic_load(&space->highest);
        for (uint32_t i = 1; i <= highest; i++) {
            struct space_slot *slot = &space->slots[i];
            uint32_t state = slot_state(slot);
            int has_ended = state >= SLOT_LEFT && state <= SLOT_ABORTING;
            if (has_ended && atomic_load(&slot->memory) == MEMORY_PRESENT)
                memory_unmap_unless_held(space, &slot, 1);
        }
        atomic_compare_exchange_strong(&space->holds_changed, &seen, HOLDS_UNCHANGED);
    }
}

/* ---- The unmapper: a thread of the reaper ----
 *
 * munmap may wait for another process: for the reader of a userfaultfd that watches the memory
 * (another task, which may be stopped), or for the driver of a device. If the reaper waited with
 * it, no task of the space could start or be reaped. The reaper therefore posts jobs, this thread
 * unmaps them in order, and the reaper finishes what is done in its next round. Where a seccomp
 * filter forbids threads, the reaper unmaps by itself.
 *
 * A slot or channel is in the ring at most once, so the ring is never full. The reaper writes a job
 * before it increments `posted`; the thread increments `done` when it has unmapped one. Both are
 * sequentially consistent, and futexes: the thread sleeps on `posted`, the reaper on `done`. */

enum { THREAD_STACK = 32 * 1024 };

static struct {
    struct unmapper_job jobs[UNMAPPER_JOBS];
    _Atomic uint32_t posted, done;
    _Atomic uint32_t has_waiter; /* the reaper waits on `done` and needs no other wake-up */
    /* The reaper's own: */
    uint32_t finished;     /* jobs that unmapper_finish has finished */
    uint32_t timed_out_at; /* a wait at this value of `done` has timed out */
    int has_thread;
} unmapper;

static void unmapper_main(void *argument)
{
    struct space *space = argument;
    raw(__NR_prctl, PR_SET_NAME, "onespace-unmap");
    for (;;) {
        uint32_t posted = atomic_load(&unmapper.posted);
        uint32_t done = atomic_load(&unmapper.done);
        if (posted == done) {
            futex_wait(&unmapper.posted, posted, UINT64_MAX);
            continue;
        }
        struct unmapper_job job = unmapper.jobs[done % UNMAPPER_JOBS];
        atomic_store(&space->unmapping_since_ns, futex_now_ns());
        atomic_store(&space->unmapping, job.first);
        DELAY("unmapper.unmap");
        job.unmap(space, job);
        atomic_store(&space->unmapping, 0);
        atomic_fetch_add(&unmapper.done, 1);
        futex_wake(&unmapper.done, 1);
        /* Read after `done` is raised: the reaper clears it and then reads `done`. */
        if (!atomic_load(&unmapper.has_waiter))
            futex_bump(&space->events);
    }
}

void unmapper_init(struct space *space)
{
    atomic_store(&unmapper.posted, 0);
    atomic_store(&unmapper.done, 0);
    atomic_store(&unmapper.has_waiter, 0);
    unmapper.finished = 0;
    unmapper.timed_out_at = UINT32_MAX;
    unmapper.has_thread = reaper_start_thread(space, LAYOUT_UNMAPPER, unmapper_main);
}

/* Blocks signals in the thread: they must end the sleep of the reaper's main thread. */
int reaper_start_thread(struct space *space, uintptr_t stack, void (*function)(void *))
{
    long result = raw(__NR_mmap, stack, THREAD_STACK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (raw_failed(result))
        return 0;
    uint64_t signals = signals_set_mask(SIGNAL_MASK_ALL);
    result =
        arch_clone(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
                   arch_push_call(stack + THREAD_STACK, function, space), NULL);
    signals_set_mask(signals);
    if (result < 0)
        raw(__NR_munmap, stack, THREAD_STACK);
    return result >= 0;
}

void unmapper_post(struct space *space, struct unmapper_job job)
{
    uint32_t posted = atomic_load(&unmapper.posted);
    unmapper.jobs[posted % UNMAPPER_JOBS] = job;
    if (unmapper.has_thread) {
        futex_bump(&unmapper.posted);
        return;
    }
    job.unmap(space, job);
    atomic_store(&unmapper.posted, posted + 1);
    atomic_store(&unmapper.done, posted + 1);
}

void unmapper_wait(uint64_t ns)
{
    uint32_t posted = atomic_load(&unmapper.posted), done = atomic_load(&unmapper.done);
    uint64_t deadline = 0;
    if (done == posted || done == unmapper.timed_out_at)
        return;
    atomic_store(&unmapper.has_waiter, 1);
    while ((done = atomic_load(&unmapper.done)) != posted) {
        deadline = deadline ? deadline : futex_now_ns() + ns;
        if (futex_wait(&unmapper.done, done, deadline) == -ETIMEDOUT)
            break;
    }
    atomic_store(&unmapper.has_waiter, 0);
    unmapper.timed_out_at = atomic_load(&unmapper.done) == posted ? UINT32_MAX : done;
}

void unmapper_finish(struct space *space)
{
    while (unmapper.finished != atomic_load(&unmapper.done)) {
        struct unmapper_job job = unmapper.jobs[unmapper.finished++ % UNMAPPER_JOBS];
        job.finish(space, job);
    }
}
