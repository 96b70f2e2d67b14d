/* src/remote_call/call.c: call a function in another member's context.
 *
 * A call finds the callee's context: the one that waits further up in this thread, if the callee is
 * among the callers, else a donor (remote_call.h), which holds the callee's memory. It announces
 * the call to that context and switches to it (arch/remote_call.h).
 *
 * All resources are taken in the name of the member that owns the kernel thread: it lives as long
 * as the thread runs, while the member whose function makes the call may end during the call. */
#include "onespace/call.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/proc.h"
#include "base/raw.h"
#include "remote_call/remote_call.h"
#include "space/member.h"

static_assert(CALL_DONORS == ONESPACE_CALL_LENDERS, "as documented");

enum {
    RED_ZONE_BYTES = 256,     /* below the stack pointer of a waiting context */
    DONOR_TIMEOUT_MS = 10000, /* until a donor is idle, or the callee serves */
    POLL_MS = 2,              /* releasing a donor wakes no waiter, so waiters poll */
    CHECKED_FUNCTIONS = 256,
};

/* ---- Messages, and each thread's state ---- */

static _Thread_local char message[384];

int call_fail(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    return error;
}

const char *onespace_call_message(void)
{
    return message;
}

/* initial-exec: a call reads it several times, and must find it at a fixed distance from the thread
 * pointer. It fits into the static TLS that glibc reserves for libraries opened later. */
static _Thread_local struct call_thread this_thread __attribute__((tls_model("initial-exec")));

struct call_thread *call_thread(void)
{
    return &this_thread;
}

/* ---- The table of donors ---- */

int call_table_map(struct space *space)
{
    long result = shared_table_map(&space->calls, LAYOUT_CALLS, CALL_MAGIC,
                                   sizeof(struct call_table), "table of donors", space->library);
    if (result == -EPROTO)
        return call_fail(-EPROTO, "the space's calls are of another version of onespace: install "
                                  "one version for all programs");
    if (result < 0)
        return call_fail(-ENOMEM, "the space has no memory for calls: %s: see docs/memory.md",
                         strerror((int)-result));
    return 0;
}

/* ---- Is the address a function of the callee? ----
 *
 * The check reads /proc/self/maps, so its results are cached by function and member's id. A cached
 * result stays true unless the callee closes a library. Calling a function
 * of a closed library is an error, as it is within one program. */

/* One thread at a time writes an entry, in the order id 0, function, id. Readers read id, function,
 * id, so they never accept a half-written pair. All accesses are sequentially consistent. */
static struct {
    _Atomic uintptr_t function;
    _Atomic int32_t id_plus_1;
} checked[CHECKED_FUNCTIONS];
static _Atomic uint64_t checked_space; /* created_ns of the space that the entries belong to */

static unsigned checked_index(int id, uintptr_t function)
{
    uintptr_t hash = (function >> 4) + (function >> 12); /* no page size */
    return (unsigned)(hash + (unsigned)id) % CHECKED_FUNCTIONS;
}

static int checked_contains(int id, uintptr_t function)
{
    unsigned index = checked_index(id, function);
    return atomic_load(&checked[index].id_plus_1) == id + 1 &&
           atomic_load(&checked[index].function) == function &&
           atomic_load(&checked[index].id_plus_1) == id + 1;
}

static void checked_insert(int id, uintptr_t function)
{
    static atomic_flag is_busy = ATOMIC_FLAG_INIT;
    unsigned index = checked_index(id, function);
    if (atomic_flag_test_and_set(&is_busy))
        return; /* the next call repeats the check */
    atomic_store(&checked[index].id_plus_1, 0);
    atomic_store(&checked[index].function, function);
    atomic_store(&checked[index].id_plus_1, id + 1);
    atomic_flag_clear(&is_busy);
}

/* Returns whether the address is mapped executable; 1 if /proc cannot be read. */
static int is_executable(uintptr_t address)
{
    char buffer[4096];
    struct proc_maps maps;
    struct proc_mapping mapping;
    int found = 0;
    if (proc_maps_open(&maps, 0, buffer, sizeof(buffer)) != 0)
        return 1;
    while (!found && proc_maps_next(&maps, &mapping))
        if (address >= mapping.start && address < mapping.end)
            found = mapping.permissions[2] == 'x' ? 1 : -1;
    proc_maps_close(&maps);
    return found == 1;
}

static int check_function(struct space *space, const struct space_slot *slot, int id,
                          uintptr_t function)
{
    if (atomic_load_explicit(&checked_space, memory_order_acquire) == space->created_ns) {
        if (checked_contains(id, function))
            return 0;
    } else { /* this root has ended a space and created another one */
        for (unsigned i = 0; i < CHECKED_FUNCTIONS; i++)
            atomic_store(&checked[i].id_plus_1, 0);
        atomic_store(&checked_space, space->created_ns);
    }
    /* Without interposition a task's memory is not in its range. */
    int owner = slot->flags & ONESPACE_SPAWN_NO_INTERPOSE ? id : onespace_owner((void *)function);
    if (owner != id)
        return call_fail(
            -EINVAL,
            "%#lx is not a function of member %d: it is not in that member's memory; take its "
            "address from onespace_lookup",
            (unsigned long)function, id);
    if (!is_executable(function))
        return call_fail(-EINVAL,
                         "%#lx is not a function of member %d: the memory there is not executable; "
                         "take the address of a function from onespace_lookup",
                         (unsigned long)function, id);
    checked_insert(id, function);
    return 0;
}

/* ---- The two sides of a call ---- */

struct sides {
    struct space *space;
    struct call_thread *thread;
    struct space_slot *self, *callee;
    struct space_slot *thread_owner; /* the member that owns the kernel thread */
    struct call_member *member;      /* the callee's donors */
    int32_t id;                      /* the callee's */
    int32_t tid;
    int blocks_signals; /* during the call */
    uintptr_t pointer;  /* thread pointer in the kernel thread's own program */
};

static void find_thread_owner(struct sides *sides)
{
    struct call_thread *thread = sides->thread;
    if (thread->donor) {
        uint64_t word = atomic_load(&thread->donor->state);
        sides->thread_owner = &sides->space->slots[donor_borrower_slot(word)];
        sides->tid = donor_borrower_thread(word);
        sides->pointer = thread->donor->borrower_pointer;
        return;
    }
    if (!thread->id)
        thread->id = raw(__NR_gettid);
    sides->thread_owner = sides->self;
    sides->tid = thread->id;
    sides->pointer = arch_thread_pointer();
}

/* Returns the call for which a context of the callee waits in this thread, or NULL. */
static struct call_frame *find_waiting(const struct sides *sides)
{
    struct call_frame *frame = sides->thread->current;
    while (frame && frame->caller != sides->id)
        frame = frame->prev;
    return frame;
}

static int is_serving(const struct sides *sides)
{
    /* Acquire, pairs with the releases of the thread that mapped the table and of the server. */
    return atomic_load_explicit(&sides->space->calls, memory_order_acquire) &&
           atomic_load_explicit(&sides->member->owner, memory_order_acquire) ==
               (uint32_t)sides->id + 1;
}

/* A task that was started with ONESPACE_SPAWN_CALLS may not have reached its main yet. Its agent
 * clears the flag if the task cannot serve. */
static int await_service(const struct sides *sides)
{
    uint64_t deadline = futex_deadline(DONOR_TIMEOUT_MS);
    const volatile uint32_t *flags = &sides->callee->flags;
    while (!is_serving(sides) && (*flags & ONESPACE_SPAWN_CALLS) && futex_now_ns() < deadline &&
           slot_is_alive(slot_state(sides->callee)) &&
           slot_find(sides->space, sides->id) == sides->callee)
        futex_wait(&sides->callee->ended, 0, futex_deadline(POLL_MS));
    return is_serving(sides);
}

static int check_sides(struct sides *sides)
{
    struct call_thread *thread = sides->thread;
    if (slot_is_thread(sides->self) || slot_is_thread(sides->callee))
        return call_fail(-ENOTSUP,
                         "member %d is in thread mode, which takes no part in calls: start it "
                         "without ONESPACE_SPAWN_THREAD",
                         slot_is_thread(sides->self) ? atomic_load(&sides->self->id) : sides->id);
    if (!slot_is_alive(slot_state(sides->callee)))
        return call_fail(-EOWNERDEAD, "member %d has ended", sides->id);
    if (is_serving(sides) || (thread->current && find_waiting(sides)) || await_service(sides))
        return 0;
    if (!slot_is_alive(slot_state(sides->callee)))
        return call_fail(-EOWNERDEAD, "member %d has ended", sides->id);
    return call_fail(-ENOTSUP,
                     "member %d does not serve calls: let it call onespace_call_serve, or start "
                     "it with ONESPACE_SPAWN_CALLS; static programs cannot",
                     sides->id);
}

/* ---- Calls that a jump has abandoned ---- */

static int is_in_chain(const struct call_frame *frame, const struct call_donor *donor)
{
    for (; frame; frame = frame->prev)
        if (frame->donor == donor)
            return 1;
    return 0;
}

/* Discards a donor that an earlier call of this thread has taken. */
static void discard_lost_donor(const struct sides *sides, struct call_donor *donor)
{
    donor_discard(donor, DONOR_LOST);
    reaper_recheck(sides->space);
}

/* Discards the donors of calls back into this context that a jump has abandoned. The frames of such
 * calls lie below the current frame. Only the innermost frame of the abandoned context is still
 * valid: the memory of the others may have been reused. */
static void drop_abandoned_calls_back(const struct sides *sides, uintptr_t stack)
{
    struct call_thread *thread = sides->thread;
    while (thread->current && !thread->donor && stack > thread->current->arch.stack) {
        struct call_frame *outer = thread->current->outer, *frame = thread->current;
        uint32_t min_depth = outer ? outer->depth + 2 : 2;
        while (frame && frame->depth >= min_depth && frame->caller_donor) {
            /* Read the frame first: it lies in memory that the donor holds. */
            struct call_donor *donor = frame->caller_donor;
            frame = frame->depth > min_depth ? frame->prev : NULL;
            discard_lost_donor(sides, donor);
        }
        thread->current = outer;
    }
}

/* ---- Taking and releasing a donor ---- */

static uint64_t lent_word(const struct sides *sides)
{
    return DONOR_LENT |
           (uint64_t)slot_index(sides->space, sides->thread_owner) << DONOR_SLOT_SHIFT |
           (uint64_t)(uint32_t)sides->tid << DONOR_THREAD_SHIFT;
}

/* Takes the donor if it is idle. Discards it if an abandoned call of this thread has it. */
static struct call_donor *donor_try_take(const struct sides *sides, unsigned index)
{
    struct call_donor *donor = &sides->member->donors[index];
    uint64_t word = DONOR_IDLE, lent = lent_word(sides);
    if (atomic_compare_exchange_strong(&donor->state, &word, lent)) {
        sides->thread->hint = index;
        donor->borrower_pointer = sides->pointer;
        return donor;
    }
    if (word == lent && !is_in_chain(sides->thread->current, donor))
        discard_lost_donor(sides, donor);
    return NULL;
}

static struct call_donor *donor_take_idle(const struct sides *sides, int *all_lent)
{
    *all_lent = 1;
    for (unsigned i = 0; i < CALL_DONORS; i++) {
        unsigned index = (sides->thread->hint + i) % CALL_DONORS;
        struct call_donor *donor = donor_try_take(sides, index);
        if (donor)
            return donor;
        *all_lent &= donor_state_of(atomic_load(&sides->member->donors[index].state)) == DONOR_LENT;
    }
    return NULL;
}

/* Returns 0 if a donor will become idle, else the error. */
static int check_donor_expected(const struct sides *sides, int all_lent)
{
    if (atomic_load(&sides->member->gone) || !slot_is_alive(slot_state(sides->callee)))
        return call_fail(-EOWNERDEAD, "member %d has ended", sides->id);
    if (all_lent)
        return call_fail(-EAGAIN, "all %d donor threads of member %d are in calls: retry later",
                         CALL_DONORS, sides->id);
    uint32_t error = atomic_exchange(&sides->member->failed, 0);
    if (error)
        return call_fail(-EAGAIN,
                         "member %d cannot create another donor thread for calls: %s: raise the "
                         "limit of processes (ulimit -u)",
                         sides->id, strerror((int)error));
    return 0;
}

/* Returns NULL with *failed set on failure. */
static struct call_donor *donor_await(const struct sides *sides, int *failed)
{
    struct call_member *member = sides->member;
    uint64_t deadline = 0;
    for (;;) {
        int all_lent;
        uint32_t ready = atomic_load_explicit(&member->ready, memory_order_acquire);
        struct call_donor *donor = donor_take_idle(sides, &all_lent);
        if (donor)
            return donor;
        deadline = deadline ? deadline : futex_deadline(DONOR_TIMEOUT_MS);
        *failed = check_donor_expected(sides, all_lent);
        if (!*failed && futex_now_ns() >= deadline)
            *failed = call_fail(-EAGAIN,
                                "member %d creates no further donor thread for calls: is it "
                                "stopped?",
                                sides->id);
        if (*failed)
            return NULL;
        futex_bump(&member->wanted);
        futex_wait(&member->ready, ready, futex_deadline(POLL_MS));
    }
}

/* Returns whether the donor just taken belongs to the callee, and the callee lives. `gone` is read
 * first: see remote_call.h. */
static int is_callees_donor(const struct sides *sides)
{
    return !atomic_load(&sides->member->gone) &&
           atomic_load(&sides->member->owner) == (uint32_t)sides->id + 1;
}

/* Releases a donor without a call. The next member in the slot may have reset it meanwhile. */
static void donor_release_unused(const struct sides *sides, struct call_donor *donor)
{
    uint64_t lent = lent_word(sides);
    atomic_compare_exchange_strong(&donor->state, &lent, DONOR_IDLE);
    futex_bump(&sides->member->ready); /* for callers that found no idle donor meanwhile */
    reaper_recheck(sides->space);
}

/* Returns NULL with *failed set on failure. */
static struct call_donor *donor_take(const struct sides *sides, int *failed)
{
    struct call_donor *donor = donor_await(sides, failed);
    if (!donor || is_callees_donor(sides))
        return donor;
    donor_release_unused(sides, donor);
    *failed = call_fail(-EOWNERDEAD, "member %d has ended", sides->id);
    return NULL;
}

/* Returns the donor of the thread's last call if this call has the same callee and function and
 * needs no check; NULL: take the full path. */
static struct call_donor *donor_take_again(struct sides *sides, uintptr_t function)
{
    struct call_thread *thread = sides->thread;
    if (thread->checked_function != function || thread->checked_id != sides->id ||
        thread->checked_in != sides->space->created_ns || thread->current)
        return NULL;
    find_thread_owner(sides);
    struct call_donor *donor = donor_try_take(sides, thread->hint);
    if (!donor || is_callees_donor(sides))
        return donor;
    donor_release_unused(sides, donor);
    return NULL;
}

/* Releases the donor after a call: the last use of the callee's memory. */
static void donor_release(const struct sides *sides, struct call_frame *frame)
{
    if (frame->ended_thread)
        donor_discard(frame->donor, DONOR_RETIRED);
    else /* Release: the next borrower sees the context as this call left it. */
        atomic_store_explicit(&frame->donor->state, DONOR_IDLE, memory_order_release);
    if (atomic_load_explicit(&sides->member->gone, memory_order_relaxed)) {
        atomic_thread_fence(memory_order_seq_cst);
        reaper_recheck(sides->space);
    }
}

/* ---- The call ---- */

static void fill_frame(struct call_frame *frame, const struct sides *sides, uintptr_t function,
                       const intptr_t *arguments)
{
    struct call_thread *thread = sides->thread;
    frame->arch.own_pointer = arch_thread_pointer();
    frame->arch.function = function;
    frame->arch.arguments = arguments;
    frame->arch.leave = arch_remote_call_leave;
    frame->arch.armed = 0;
    frame->prev = thread->current;
    frame->caller_donor = thread->donor;
    frame->caller_current = &thread->current;
    frame->caller_boundary = (uintptr_t)arch_remote_call_boundary;
    frame->caller = atomic_load_explicit(&sides->self->id, memory_order_relaxed);
    frame->callee = sides->id;
    frame->thread_owner = (int32_t)slot_index(sides->space, sides->thread_owner);
    frame->depth = thread->current ? thread->current->depth + 1 : 1;
    frame->ended_thread = 0;
    frame->detail[0] = 0;
}

static const uint32_t never_gone = 0;

static void target_waiting_context(struct call_frame *frame, const struct call_frame *waiting)
{
    const struct call_donor *donor = waiting->caller_donor;
    frame->arch.gone = donor ? (const uint32_t *)&donor_member(donor)->gone : &never_gone;
    frame->donor = waiting->caller_donor;
    frame->arch.pointer = waiting->arch.own_pointer;
    frame->arch.stack = (waiting->arch.own_stack - RED_ZONE_BYTES) & -(uintptr_t)16;
    frame->arch.boundary = waiting->caller_boundary;
    frame->callee_current = waiting->caller_current;
}

static void target_donor(struct call_frame *frame, struct call_donor *donor,
                         const struct call_member *member)
{
    frame->donor = donor;
    frame->arch.gone = (const uint32_t *)&member->gone;
    frame->arch.pointer = donor->pointer;
    frame->arch.stack = donor->stack;
    frame->arch.boundary = donor->boundary;
    frame->callee_current = (struct call_frame **)donor->current;
}

static int fail_call(const struct call_frame *frame, long status)
{
    if (status == -EOWNERDEAD)
        return call_fail(-EOWNERDEAD, "member %d has ended during the call", frame->callee);
    if (frame->ended_thread)
        return call_fail(-ECANCELED,
                         "the function of member %d has ended its thread (pthread_exit "
                         "or cancellation) instead of returning",
                         frame->callee);
    return call_fail(-ECANCELED,
                     "the function of member %d has thrown an exception that nothing "
                     "in it catches: %s",
                     frame->callee, frame->detail);
}

static long switch_context(struct call_frame *frame, const struct sides *sides)
{
    uint64_t mask = 0;
    if (sides->blocks_signals)
        mask = signals_set_mask(~signal_bit(CALL_SIGNAL));
    frame->outer = *frame->callee_current;
    *frame->callee_current = frame;
    long status = arch_remote_call_switch(&frame->arch);
    *frame->callee_current = frame->outer;
    if (sides->blocks_signals)
        signals_set_mask(mask);
    return status;
}

/* Caches arch_may_set_thread_pointer, which asks the libc. The first call prepares this program for
 * calls: glibc installs its handler of CALL_SIGNAL with the first thread that it makes, and would
 * replace ours (signals.c). Where no thread can be made now, that remains possible. */
static int may_set_thread_pointer(void)
{
    /* -1: not known yet. All threads write the same value, so it orders nothing. */
    static _Atomic int cached = -1;
    int may = atomic_load_explicit(&cached, memory_order_relaxed);
    if (may < 0) {
        unwind_install_handler();
        (void)force_libc_locking();
        may = arch_may_set_thread_pointer();
        atomic_store_explicit(&cached, may, memory_order_relaxed);
    }
    return may;
}

/* Calls the function in the donor's context, or in the waiting one if `donor` is NULL. */
static int call_in_context(const struct sides *sides, struct call_donor *donor,
                           const struct call_frame *waiting, uintptr_t function,
                           const intptr_t *arguments, intptr_t *result)
{
    struct call_frame frame;
    if (donor)
        target_donor(&frame, donor, sides->member);
    else
        target_waiting_context(&frame, waiting);
    fill_frame(&frame, sides, function, arguments);
    frame.arch.by_call = !may_set_thread_pointer();
    long status = switch_context(&frame, sides);
    if (donor)
        donor_release(sides, &frame);
    else if (frame.ended_thread && frame.outer)
        frame.outer->ended_thread = 1; /* its donor is retired when that call returns */
    if (status < 0)
        return fail_call(&frame, status);
    if (result)
        *result = frame.arch.result;
    return 0;
}

/* Checks the function and calls it. Releases the donor in any case. */
static int check_and_call(struct sides *sides, struct call_donor *donor,
                          const struct call_frame *waiting, uintptr_t function,
                          const intptr_t *arguments, intptr_t *result)
{
    int failed = check_function(sides->space, sides->callee, sides->id, function);
    if (failed && donor)
        donor_release_unused(sides, donor);
    if (failed)
        return failed;
    if (!sides->thread->current && !sides->blocks_signals) {
        sides->thread->checked_function = function;
        sides->thread->checked_id = sides->id;
        sides->thread->checked_in = sides->space->created_ns;
    }
    return call_in_context(sides, donor, waiting, function, arguments, result);
}

static int call_other_member(struct sides *sides, uintptr_t function, const intptr_t *arguments,
                             intptr_t *result)
{
    int failed = check_sides(sides);
    if (failed)
        return failed;
    find_thread_owner(sides);
    drop_abandoned_calls_back(sides, (uintptr_t)__builtin_frame_address(0));
    if (!atomic_load_explicit(&sides->callee->was_called, memory_order_relaxed))
        atomic_store(&sides->callee->was_called, 1);
    /* Before a donor is taken, so that the reaper finds the caller. A nested call has done it. */
    sides->blocks_signals =
        !sides->thread->current &&
        call_install_handlers(sides->space, sides->thread_owner, may_set_thread_pointer());
    const struct call_frame *waiting = sides->thread->current ? find_waiting(sides) : NULL;
    struct call_donor *donor = waiting ? NULL : donor_take(sides, &failed);
    if (donor || waiting)
        failed = check_and_call(sides, donor, waiting, function, arguments, result);
    /* The member that makes this call may have ended meanwhile: its own caller must return. */
    struct call_thread *thread = sides->thread;
    if (thread->donor && atomic_load(&donor_member(thread->donor)->gone))
        thread->current->arch.leave(&thread->current->arch, -EOWNERDEAD);
    return failed;
}

typedef intptr_t six_arguments(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t);

int onespace_call_with(int id, const void *function, const intptr_t *arguments, intptr_t *result)
{
    struct sides sides = {.space = space_mine(), .id = id};
    if (!sides.space)
        return call_fail(-EPERM, "the caller is not a member of a space: call onespace_init first");
    if (!function)
        return call_fail(-EINVAL, "the function is NULL");
    sides.self = space_self();
    sides.thread = call_thread();
    sides.member = &call_table()->members[slot_index_of_id(id)];
    struct call_donor *donor = donor_take_again(&sides, (uintptr_t)function);
    if (donor)
        return call_in_context(&sides, donor, NULL, (uintptr_t)function, arguments, result);
    sides.callee = slot_find(sides.space, id);
    if (!sides.callee)
        return call_fail(-ESRCH, "there is no member %d", id);
    if (sides.callee == sides.self) {
        const intptr_t *a = arguments;
        intptr_t value = ((six_arguments *)(uintptr_t)function)(a[0], a[1], a[2], a[3], a[4], a[5]);
        if (result)
            *result = value;
        return 0;
    }
    /* The function changes its own member's memory and a signal handler the caller's, but the one
     * kernel thread has the access rights of one guarded task. */
    if (sides.self->guard_key || sides.callee->guard_key)
        return call_fail(-ENOTSUP, "calls between guarded tasks are not possible: start them "
                                   "without --guard");
    return call_other_member(&sides, (uintptr_t)function, arguments, result);
}

int onespace_call(int id, onespace_call_function *function, void *argument, intptr_t *result)
{
    const intptr_t arguments[ONESPACE_CALL_ARGUMENTS] = {(intptr_t)argument};
    return onespace_call_with(id, (const void *)(uintptr_t)function, arguments, result);
}

int onespace_call_name(int id, const char *name, const intptr_t *arguments, intptr_t *result)
{
    void *function = NULL;
    int found = onespace_lookup(id, name, &function, NULL);
    if (found == -ENOENT)
        return call_fail(found, "member %d has no function '%s'", id, name);
    if (found == -ENOTSUP)
        return call_fail(found,
                         "'%s' of member %d is thread-local or an indirect function: call another "
                         "function that uses it",
                         name, id);
    if (found < 0)
        return call_fail(found, "the function cannot be looked up in member %d: %s", id,
                         strerror(-found));
    return onespace_call_with(id, function, arguments, result);
}
