/* src/space/registrations.c: see registrations.h. All accesses to notices, records and `notifier`
 * are sequentially consistent: a registrant records before it registers, and an owner reads the
 * records after whatever told it that the registrant is done. Freestanding. */
#include "space/registrations.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/delay.h"
#include "base/futex.h"
#include "base/page.h"
#include "base/proc.h"
#include "base/raw.h"
#include "base/text.h"
#include "space/intervals.h"
#include "space/locks.h"
#include "space/member.h"
#include "space/shared_mappings.h"

/* In a notice, the bit that marks a tentative interval: its delivery has begun. */
enum { IN_DELIVERY = INTERVAL_TENTATIVE };
#define NOTICE_WAIT_NS   UINT64_C(10000000000)
#define NOTICE_MAX_BYTES (INTERVAL_MAX_PAGES * ARCH_PAGE_MIN)

/* ---- Who has registered what ---- */

/* The bit of a slot is set before its notifier is RUNNING and cleared by the reaper. */
static _Atomic uint64_t *registrants_word(struct space *space, unsigned index)
{
    return &space->registrants[index / 64];
}

int registrations_exist(const struct space *space)
{
    return atomic_load_explicit(&space->registrants_end, memory_order_relaxed) != 0;
}

/* The next registrant's index from `index` on, or LAYOUT_SLOTS. */
static unsigned next_registrant(struct space *space, unsigned index)
{
    unsigned end = atomic_load(&space->registrants_end);
    while (index < end) {
        uint64_t bits = atomic_load(registrants_word(space, index)) >> index % 64;
        if (bits)
            return index + (unsigned)__builtin_ctzll(bits);
        index = (index / 64 + 1) * 64;
    }
    return LAYOUT_SLOTS;
}

static int is_running(const struct space_registrations *registrant)
{
    return atomic_load(&registrant->notifier) == NOTIFIER_RUNNING;
}

/* Whether a notice or the delivery overlaps [start, end). A delivery may cover more than its
 * notice. */
static int has_notice_in(const struct space_registrations *registrant, uintptr_t start,
                         uintptr_t end)
{
    if (atomic_load(&registrant->notice_count) == 0)
        return 0;
    if (atomic_load(&registrant->delivering) < end &&
        atomic_load(&registrant->delivering_end) > start)
        return 1;
    for (unsigned i = 0; i < REGISTRATION_NOTICES; i++) {
        uint64_t word = atomic_load(&registrant->notices[i]);
        if (word && interval_start(word) < end && interval_end(word) > start)
            return 1;
    }
    return 0;
}

static int has_record_in(const struct space_slot *slot, uintptr_t start, uintptr_t end)
{
    const struct space_registrations *registrant = &slot->registrations;
    uint32_t changes = atomic_load(&registrant->changes);
    if (changes & 1)
        return 1;
    int is_found = start < atomic_load(&registrant->high) && end > atomic_load(&registrant->low) &&
                   intervals_overlap(slot, INTERVALS_REGISTERED, start, end);
    return is_found || atomic_load(&registrant->changes) != changes;
}

/* Whether the registrant must be notified of [start, end). What is being delivered counts, too,
 * because its records are gone already; they are read first. */
static int must_notify(const struct space_slot *slot, uintptr_t start, uintptr_t end)
{
    return is_running(&slot->registrations) &&
           (has_record_in(slot, start, end) || has_notice_in(&slot->registrations, start, end));
}

/* ---- Owners ---- */

static uint64_t notice_word(uintptr_t start, uintptr_t end)
{
    return (uint64_t)(start / ARCH_PAGE_MIN) << INTERVAL_START_SHIFT |
           (uint64_t)((end - start) / ARCH_PAGE_MIN) << 1;
}

static int has_notice(const struct space_registrations *registrant, uint64_t notice)
{
    for (unsigned i = 0; i < REGISTRATION_NOTICES; i++)
        if ((atomic_load(&registrant->notices[i]) & ~(uint64_t)IN_DELIVERY) == notice)
            return 1;
    return 0;
}

/* Posts a notice and wakes the notifier: 1, or 0 if all words are used. If the registrant ends
 * meanwhile, the notice may stay; the slot's next task then hears of memory that it does not have
 * registered. */
static int post(struct space_registrations *registrant, uint64_t notice)
{
    atomic_fetch_add(&registrant->notice_count, 1);
    for (unsigned i = 0; i < REGISTRATION_NOTICES; i++) {
        uint64_t unused = 0;
        if (atomic_load(&registrant->notices[i]) ||
            !atomic_compare_exchange_strong(&registrant->notices[i], &unused, notice))
            continue;
        DELAY("registrations.post");
        atomic_fetch_add(&registrant->posted, 1);
        futex_wake(&registrant->posted, 1);
        return 1;
    }
    atomic_fetch_sub(&registrant->notice_count, 1);
    return 0;
}

/* Posts the notice when a word is free: 0 or -ETIMEDOUT. */
static long post_when_possible(struct space_registrations *registrant, uint64_t notice,
                               uint64_t deadline)
{
    for (;;) {
        uint32_t delivered = atomic_load(&registrant->delivered);
        if (!is_running(registrant) || post(registrant, notice))
            return 0;
        if (futex_wait(&registrant->delivered, delivered, deadline) == -ETIMEDOUT)
            return -ETIMEDOUT;
    }
}

/* Waits until the notice is delivered: 0 or -ETIMEDOUT. An equal notice of another thread may
 * prolong the wait. */
static long await_delivery(const struct space_registrations *registrant, uint64_t notice,
                           uint64_t deadline)
{
    for (;;) {
        uint32_t delivered = atomic_load(&registrant->delivered);
        if (!is_running(registrant) || !has_notice(registrant, notice))
            return 0;
        if (futex_wait(&registrant->delivered, delivered, deadline) == -ETIMEDOUT)
            return -ETIMEDOUT;
    }
}

enum { WARNING_BYTES = 320 };

/* Begins a message about the registrant, of which only the first is printed: its end so far, or
 * NULL. */
static char *begin_warning(struct space_slot *slot, char text[WARNING_BYTES])
{
    if (atomic_exchange(&slot->registrations.has_warned, 1))
        return NULL;
    return text_append_number(text_append(text, "onespace: task "),
                              (uint64_t)atomic_load(&slot->id), 10);
}

static void warn_late(struct space_slot *slot)
{
    char text[WARNING_BYTES], *end = begin_warning(slot, text);
    if (!end)
        return;
    end = text_append(end, " (process ");
    end = text_append_number(end, (uint64_t)(uint32_t)atomic_load(&slot->pid), 10);
    end =
        text_append(end, ") has registered memory of another task with a device and does not hear "
                         "within 10 seconds that it is unmapped: if it continues, its transfers "
                         "from and to that memory may be lost. Is it stopped?\n");
    raw(__NR_write, 2, text, end - text);
}

/* Whether the calling thread, of `self`, is its notifier. */
static int is_notifier(const struct space_slot *self)
{
    return is_running(&self->registrations) &&
           (int32_t)raw(__NR_gettid) == atomic_load(&self->registrations.tid);
}

struct unmapping {
    const struct space_slot *self;
    enum registrations_audience audience;
    uintptr_t start, end;
    int waits_for_delivery;
    uint64_t deadline; /* 0: not set yet */
};

static int is_addressed(const struct unmapping *unmapping, const struct space_slot *slot)
{
    return unmapping->audience == NOTIFY_ALL || slot != unmapping->self;
}

/* A notifier waits only until it can post. */
static void set_deadline(struct unmapping *unmapping)
{
    if (unmapping->deadline)
        return;
    unmapping->waits_for_delivery = !is_notifier(unmapping->self);
    unmapping->deadline = futex_now_ns() + NOTICE_WAIT_NS;
}

/* 0 or -ETIMEDOUT. */
static long notify_of_part(struct space *space, struct unmapping *unmapping)
{
    uint64_t notice = notice_word(unmapping->start, unmapping->end);
    long result = 0;
    int has_posted = 0;
    for (unsigned i = next_registrant(space, 1); i < LAYOUT_SLOTS;
         i = next_registrant(space, i + 1)) {
        struct space_slot *slot = &space->slots[i];
        if (!is_addressed(unmapping, slot) || !must_notify(slot, unmapping->start, unmapping->end))
            continue;
        set_deadline(unmapping);
        has_posted = 1;
        if (post_when_possible(&slot->registrations, notice, unmapping->deadline) != 0) {
            warn_late(slot);
            result = -ETIMEDOUT;
        }
    }
    for (unsigned i = has_posted ? next_registrant(space, 1) : LAYOUT_SLOTS; i < LAYOUT_SLOTS;
         i = next_registrant(space, i + 1)) {
        struct space_slot *slot = &space->slots[i];
        if (!is_addressed(unmapping, slot) || !unmapping->waits_for_delivery ||
            await_delivery(&slot->registrations, notice, unmapping->deadline) == 0)
            continue;
        warn_late(slot);
        result = -ETIMEDOUT;
    }
    return result;
}

long registrations_notify(struct space *space, const struct space_slot *self,
                          enum registrations_audience audience, uintptr_t start, uintptr_t end)
{
    long result = 0;
    struct unmapping unmapping = {.self = self, .audience = audience, .start = start};
    if (!registrations_exist(space))
        return 0;
    for (; unmapping.start < end; unmapping.start = unmapping.end) {
        uintptr_t left = end - unmapping.start;
        unmapping.end = unmapping.start + (left > NOTICE_MAX_BYTES ? NOTICE_MAX_BYTES : left);
        long failed = notify_of_part(space, &unmapping);
        result = failed ? failed : result;
    }
    return result;
}

/* ---- The registrant ---- */

static void warn_unheard(struct space_slot *self, const char *reason)
{
    char text[WARNING_BYTES], *end = begin_warning(self, text);
    if (!end)
        return;
    end = text_append(end,
                      " registers memory of other tasks with a device and will not hear when they "
                      "unmap it, because ");
    end = text_append(text_append(end, reason), "\n");
    raw(__NR_write, 2, text, end - text);
}

/* Creates the notifier, unless another thread has. Returns whether it runs. Signals are blocked,
 * because a handler may register memory and the notifier must run no handlers; except the two that
 * glibc sends to all threads, for setuid and pthread_cancel. */
static int ensure_notifier(struct space *space, struct space_slot *self)
{
    struct space_registrations *mine = &self->registrations;
    unsigned index = slot_index(space, self);
    uint32_t state = atomic_load(&mine->notifier);
    if (state > NOTIFIER_STARTING)
        return state == NOTIFIER_RUNNING;
    uint64_t signals = signals_set_mask(SIGNAL_MASK_ALL & ~(signal_bit(32) | signal_bit(33)));
    state = NOTIFIER_NONE;
    if (atomic_compare_exchange_strong(&mine->notifier, &state, NOTIFIER_STARTING)) {
        word_raise(&space->registrants_end, index + 1);
        atomic_fetch_or(registrants_word(space, index), UINT64_C(1) << index % 64);
        int (*start)(void) = (int (*)(void))mine->start_notifier;
        int has_started = start && start() == 0;
        if (!has_started) /* the next registration tries again */
            warn_unheard(self, "its libc cannot create a thread for that");
        state = NOTIFIER_STARTING; /* unless the notifier has failed already */
        atomic_compare_exchange_strong(&mine->notifier, &state,
                                       has_started ? NOTIFIER_RUNNING : NOTIFIER_NONE);
        futex_wake(&mine->notifier, INT32_MAX);
    }
    while ((state = atomic_load(&mine->notifier)) == NOTIFIER_STARTING)
        futex_wait(&mine->notifier, NOTIFIER_STARTING, UINT64_MAX);
    signals_set_mask(signals);
    return state == NOTIFIER_RUNNING;
}

/* Between these the caller changes the records. */
static uint64_t begin_change(struct space_slot *self)
{
    uint64_t signals = member_lock(self);
    atomic_fetch_add(&self->registrations.changes, 1);
    return signals;
}

static void end_change(struct space_slot *self, uint64_t signals)
{
    atomic_fetch_add(&self->registrations.changes, 1);
    member_unlock(self, signals);
}

/* 0, or -1 if the table is full. */
static int try_add_record(struct space_slot *self, uintptr_t start, uintptr_t end)
{
    struct space_registrations *mine = &self->registrations;
    uint64_t signals = begin_change(self);
    uintptr_t low = atomic_load(&mine->low);
    int result = 0;
    if (!low || start < low)
        atomic_store(&mine->low, start);
    if (end > atomic_load(&mine->high))
        atomic_store(&mine->high, end);
    if (!intervals_contain(self, INTERVALS_REGISTERED, start, end))
        result = intervals_add(self, INTERVALS_REGISTERED, start, end);
    end_change(self, signals);
    return result;
}

/* Removes records from a full table by a notice to the caller's own notifier, for all of one
 * member's memory: the libraries will register anew what they still need. 0, -ETIMEDOUT, or -ESRCH:
 * the notifier has ended. */
static long evict_records(struct space_slot *self)
{
    struct space_registrations *mine = &self->registrations;
    uintptr_t start, end;
    if (is_notifier(self))
        return -ETIMEDOUT;
    if (!intervals_find(self, INTERVALS_REGISTERED, 0, INTERVAL_ADDRESSES, &start, &end))
        return 0;
    unsigned owner = layout_slot_of(start);
    if (owner < LAYOUT_SLOTS) {
        start = layout_range(owner);
        end = start + LAYOUT_RANGE;
    }
    uint64_t notice = notice_word(start, end), deadline = futex_now_ns() + NOTICE_WAIT_NS;
    long result = post_when_possible(mine, notice, deadline);
    if (result == 0)
        result = await_delivery(mine, notice, deadline);
    return result == 0 && !is_running(mine) ? -ESRCH : result;
}

static void add_record(struct space_slot *self, uintptr_t start, uintptr_t end)
{
    long result = 0;
    while (start < end && result == 0 && try_add_record(self, start, end) != 0)
        result = evict_records(self);
    if (result == -ETIMEDOUT)
        warn_unheard(self, "it has registered too much at once");
}

/* Memory of a shared mapping that the member uses itself stays mapped until the member unmaps it,
 * by its own libc. */
static int own_libc_is_notified(const struct space *space, const struct space_slot *self,
                                uintptr_t start, uintptr_t end)
{
    uintptr_t own = layout_range(slot_index(space, self));
    if (start >= own && end <= own + LAYOUT_RANGE)
        return 1;
    if (!shared_windows_contain(start))
        return 0;
    int index = shared_window_index(start);
    return end <= shared_window_end(index) && shared_mapping_has_user(space, self, index);
}

void registrations_add(struct space *space, struct space_slot *self, uintptr_t start,
                       uintptr_t bytes)
{
    uintptr_t own = layout_range(slot_index(space, self)), own_end = own + LAYOUT_RANGE;
    uintptr_t end = start + bytes;
    if (!bytes || end < start || end > INTERVAL_ADDRESSES - ARCH_PAGE)
        return; /* the kernel refuses it */
    start = page_floor(start);
    end = page_ceiling(end);
    if (own_libc_is_notified(space, self, start, end) || !ensure_notifier(space, self))
        return;
    add_record(self, start, end < own ? end : own);
    add_record(self, start > own_end ? start : own_end, end);
}

static void set_delivering(struct space_registrations *mine, uintptr_t start, uintptr_t end)
{
    atomic_store(&mine->delivering, 0);
    atomic_store(&mine->delivering_end, end);
    atomic_store(&mine->delivering, start);
}

static void end_delivery(struct space *space, struct space_registrations *mine)
{
    set_delivering(mine, 0, 0);
    futex_bump(&mine->delivered);
    reaper_recheck(space);
}

/* Removes the records of what is delivered now. If a record is lost, because a full table has no
 * room for its second half, all memory is delivered. */
static void remove_records(struct space_slot *self)
{
    struct space_registrations *mine = &self->registrations;
    uint64_t signals = begin_change(self);
    if (intervals_cut(self, INTERVALS_REGISTERED, atomic_load(&mine->delivering),
                      atomic_load(&mine->delivering_end), 0)) {
        set_delivering(mine, ARCH_PAGE, INTERVAL_ADDRESSES - ARCH_PAGE);
        (void)intervals_cut(self, INTERVALS_REGISTERED, 0, INTERVAL_ADDRESSES, 0);
    }
    if (intervals_trim(self, INTERVALS_REGISTERED) == 0) {
        atomic_store(&mine->low, 0);
        atomic_store(&mine->high, 0);
    }
    end_change(self, signals);
}

/* Delivers the notice in the word, if there is one. Returns whether there was. */
static int deliver(struct space *space, struct space_slot *self, _Atomic uint64_t *word,
                   void (*unmap)(uintptr_t start, uintptr_t bytes))
{
    struct space_registrations *mine = &self->registrations;
    uint64_t notice = atomic_load(word);
    if (!notice || !atomic_compare_exchange_strong(word, &notice, notice | IN_DELIVERY))
        return 0;
    set_delivering(mine, interval_start(notice), interval_end(notice));
    remove_records(self);
    DELAY("registrations.deliver");
    uintptr_t start = atomic_load(&mine->delivering);
    if (is_running(mine)) /* read after `delivering` is set: registrations_stop */
        unmap(start, atomic_load(&mine->delivering_end) - start);
    atomic_store(word, 0);
    atomic_fetch_sub(&mine->notice_count, 1);
    end_delivery(space, mine);
    return 1;
}

/* Whether the libc's munmap ends in the handler of an interposed call: 0, -EPERM, or -ENOMEM if
 * that cannot be tried. If the libc's code could not be patched, a delivery would unmap memory that
 * is in use: a page of ours shows it. Another thread of the space may have mapped another page
 * there when we look, so we compare a mark in it, by a wait that fails if the page is gone. */
static long check_munmap(struct space *space, struct space_registrations *mine,
                         void (*unmap)(uintptr_t start, uintptr_t bytes))
{
    long page =
        raw(__NR_mmap, 0, ARCH_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw_failed(page))
        return -ENOMEM;
    _Atomic uint32_t *mark = (_Atomic uint32_t *)page;
    uint32_t value = (uint32_t)((uintptr_t)page / ARCH_PAGE) ^ UINT32_C(0x6f6e6573);
    atomic_store(mark, value);
    set_delivering(mine, (uintptr_t)page, (uintptr_t)page + ARCH_PAGE);
    DELAY("registrations.check");
    unmap((uintptr_t)page, ARCH_PAGE);
    end_delivery(space, mine); /* registrations_stop may wait for it */
    if (futex_wait(mark, value, futex_now_ns()) != -ETIMEDOUT)
        return -EPERM;
    raw(__NR_munmap, page, ARCH_PAGE);
    return 0;
}

/* The threads of a task: all of its process, or in thread mode those that are the task's. */
struct thread_count {
    unsigned slot; /* in thread mode; else 0 */
    int count;
};

/* A thread belongs to the task in whose range its robust list is, as in reaper/thread_tasks.c. */
static void count_thread(void *context, int thread, int directory)
{
    struct thread_count *threads = context;
    uintptr_t head = 0;
    size_t size;
    (void)directory;
    threads->count += !threads->slot || (raw(__NR_get_robust_list, thread, &head, &size) == 0 &&
                                         layout_slot_of(head) == threads->slot);
}

/* Whether the main thread has ended, and no other thread than this one is left. */
static int is_last_thread(struct space *space, const struct space_slot *self)
{
    struct thread_count threads = {slot_is_thread(self) ? slot_index(space, self) : 0, 0};
    int least = slot_is_thread(self) ? 1 : 2; /* a zombie counts */
    return main_thread_has_ended(space, self) &&
           proc_each_number("/proc/self/task", count_thread, &threads) == 0 &&
           threads.count <= least;
}

/* Ranks poll for messages on CPUs of their own. */
static void run_on_any_cpu(void)
{
    unsigned char all[1024];
    for (unsigned i = 0; i < sizeof(all); i++)
        all[i] = 0xff;
    raw(__NR_sched_setaffinity, 0, sizeof(all), all); /* fails where a filter forbids it */
}

void registrations_deliver(struct space *space, struct space_slot *self,
                           void (*unmap)(uintptr_t start, uintptr_t bytes))
{
    enum { LOOK_NS = 1000000000 };
    struct space_registrations *mine = &self->registrations;
    raw(__NR_prctl, PR_SET_NAME, "onespace-notify");
    run_on_any_cpu();
    atomic_store(&mine->tid, (int32_t)raw(__NR_gettid));
    /* Hooks may wait for a lock that the registering thread holds, which therefore does not wait
     * for this. */
    long failed = check_munmap(space, mine, unmap);
    if (failed) { /* without memory the next registration tries again */
        atomic_store(&mine->notifier, failed == -ENOMEM ? NOTIFIER_NONE : NOTIFIER_FAILED);
        warn_unheard(self, failed == -ENOMEM ? "there is no memory for a page"
                                             : "its libc's munmap is not interposed here "
                                               "(PR_SET_MDWE, or a uprobe)");
        end_delivery(space, mine);
        return;
    }
    for (;;) {
        uint32_t posted = atomic_load(&mine->posted);
        int has_delivered = 0;
        for (unsigned i = 0; i < REGISTRATION_NOTICES; i++)
            has_delivered |= deliver(space, self, &mine->notices[i], unmap);
        if (!has_delivered &&
            futex_wait(&mine->posted, posted, futex_now_ns() + LOOK_NS) == -ETIMEDOUT &&
            is_last_thread(space, self))
            break;
    }
    atomic_store(&mine->notifier, NOTIFIER_ENDED);
    end_delivery(space, mine);
}

void registrations_stop(struct space *space, struct space_slot *self)
{
    struct space_registrations *mine = &self->registrations;
    uint32_t running = NOTIFIER_RUNNING, delivered;
    uint64_t deadline = futex_now_ns() + NOTICE_WAIT_NS;
    if (!atomic_compare_exchange_strong(&mine->notifier, &running, NOTIFIER_ENDED))
        return;
    futex_bump(&mine->delivered); /* owners need not wait any more */
    reaper_recheck(space);
    do {
        delivered = atomic_load(&mine->delivered);
        if (atomic_load(&mine->delivering) == 0 ||
            (int32_t)raw(__NR_gettid) == atomic_load(&mine->tid))
            break;
    } while (futex_wait(&mine->delivered, delivered, deadline) != -ETIMEDOUT);
}

int registrations_is_delivery(const struct space_slot *self, uintptr_t start, uintptr_t bytes)
{
    const struct space_registrations *mine = &self->registrations;
    uintptr_t delivering = atomic_load_explicit(&mine->delivering, memory_order_relaxed);
    return __builtin_expect(delivering != 0, 0) && delivering == start &&
           atomic_load_explicit(&mine->delivering_end, memory_order_relaxed) == start + bytes &&
           (int32_t)raw(__NR_gettid) == atomic_load_explicit(&mine->tid, memory_order_relaxed);
}

/* ---- The reaper ---- */

/* Posts without waiting. Records and notices that hold the memory end with a delivery, after which
 * the reaper looks again. */
static int post_and_hold(struct space_slot *slot, uintptr_t start, uintptr_t end)
{
    const struct space_registrations *registrant = &slot->registrations;
    int holds = 0;
    for (uintptr_t next; start < end && is_running(registrant); start = next) {
        next = end - start > NOTICE_MAX_BYTES ? start + NOTICE_MAX_BYTES : end;
        int is_recorded = has_record_in(slot, start, next);
        holds |= is_recorded || has_notice_in(registrant, start, next);
        if (is_recorded && !has_notice(registrant, notice_word(start, next)))
            (void)post(&slot->registrations, notice_word(start, next));
    }
    return holds;
}

/* Shared mappings that the owner has used. Others that use one do not record it. */
static int hold_shared_mappings(struct space *space, const struct space_slot *owner,
                                struct space_slot *slot)
{
    int held = 0;
    if (!atomic_load(&owner->has_shared))
        return 0;
    for (int index = 0; index < SPACE_SHARED_MAX; index++)
        if (shared_mapping_has_user(space, owner, index))
            held |= post_and_hold(slot, shared_window_start(index), shared_window_end(index));
    return held;
}

int registrations_hold(struct space *space, const struct space_slot *owner)
{
    uintptr_t range = layout_range(slot_index(space, owner));
    uint32_t used = intervals_used(owner, INTERVALS_OUT_OF_RANGE);
    int held = 0;
    for (unsigned i = next_registrant(space, 1); i < LAYOUT_SLOTS;
         i = next_registrant(space, i + 1)) {
        struct space_slot *slot = &space->slots[i];
        if (slot == owner)
            continue;
        held |= post_and_hold(slot, range, range + LAYOUT_RANGE);
        held |= hold_shared_mappings(space, owner, slot);
        for (uint32_t n = 0; n < used; n++) {
            uint64_t word = atomic_load(intervals_word(owner, INTERVALS_OUT_OF_RANGE, n));
            if (interval_is_certain(word))
                held |= post_and_hold(slot, interval_start(word), interval_end(word));
        }
    }
    return held;
}

/* The count stays right if an owner posts at the same time. It is too high, which is harmless,
 * after a notifier that was killed before it had counted down. */
static void drop_notices(struct space_registrations *registrant)
{
    for (unsigned i = 0; i < REGISTRATION_NOTICES; i++)
        if (atomic_exchange(&registrant->notices[i], 0))
            atomic_fetch_sub(&registrant->notice_count, 1);
}

int registrations_end(struct space *space, struct space_slot *slot)
{
    struct space_registrations *registrant = &slot->registrations;
    unsigned index = slot_index(space, slot);
    if (atomic_exchange(&registrant->notifier, NOTIFIER_NONE) == NOTIFIER_NONE)
        return 0;
    atomic_fetch_and(registrants_word(space, index), ~(UINT64_C(1) << index % 64));
    drop_notices(registrant);
    set_delivering(registrant, 0, 0);
    futex_bump(&registrant->delivered);
    return 1;
}

void registrations_clear(struct space_slot *slot)
{
    struct space_registrations *registrant = &slot->registrations;
    atomic_store(&registrant->notifier, NOTIFIER_NONE);
    atomic_store(&registrant->tid, 0);
    atomic_store(&registrant->has_warned, 0);
    atomic_store(&registrant->changes, 0);
    atomic_store(&registrant->low, 0);
    atomic_store(&registrant->high, 0);
    set_delivering(registrant, 0, 0);
    registrant->start_notifier = 0;
    drop_notices(registrant);
}
