/* src/remote_call/call.c: call a function in another member's context.
 *
 * In order: take a lender of the callee, which holds its memory (remote_call/remote_call.h), or the
 * context of its that waits in this thread, which a lender of another call holds; announce the call
 * to that context; switch. All in the name of the member whose kernel thread this is: it lives as
 * long as the thread runs, while the member whose function makes the call may end meanwhile. */
#include "onespace/call.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/raw.h"
#include "remote_call/context.h"
#include "space/member.h"

static_assert(CALL_LENDERS == ONESPACE_CALL_LENDERS, "as documented");

enum {
    RED_ZONE = 256,  /* below the stack pointer of a context that waits */
    WAIT_MS = 10000, /* for a lender that is to be made */
    SLICE_MS = 2,    /* of that wait: a lender that is given back wakes nobody */
};

/* The two sides of a call. */
struct sides {
    struct space *space;
    struct call_thread *thread;
    struct space_slot *self, *callee;
    struct space_slot *native;  /* the member whose kernel thread this is */
    struct call_member *member; /* the callee's lenders */
    int32_t id;                 /* the callee's */
    int32_t tid;
    int blocks;        /* signals must be blocked during the call */
    uintptr_t pointer; /* of the kernel thread's own program */
};

/* ---- Calls that were abandoned by a jump ---- */

static int is_in_chain(const struct call_frame *at, const struct call_lender *lender)
{
    for (; at; at = at->prev)
        if (at->lender == lender)
            return 1;
    return 0;
}

/* Gives up a lender that an earlier call of this thread has taken. */
static void abandon(const struct sides *sides, struct call_lender *lender)
{
    call_give_up(lender, LENDER_LOST);
    reaper_recheck(sides->space);
}

/* A jump has left a call back into this context, whose frames lay below those of now. The frames
 * above the innermost one of the context that is left are in memory that may be used otherwise now.
 */
static void drop_abandoned_calls_back(const struct sides *sides, uintptr_t stack)
{
    struct call_thread *thread = sides->thread;
    while (thread->current && !thread->lender && stack > thread->current->arch.stack) {
        struct call_frame *outer = thread->current->outer, *frame = thread->current;
        uint32_t least = outer ? outer->depth + 2 : 2;
        while (frame && frame->depth >= least && frame->caller_lender) {
            /* First: the frame lies in memory that the lender holds. */
            struct call_lender *lender = frame->caller_lender;
            frame = frame->depth > least ? frame->prev : NULL;
            abandon(sides, lender);
        }
        thread->current = outer;
    }
}

/* ---- Taking a lender ---- */

static uint64_t lent_to(const struct sides *sides)
{
    return LENDER_LENT | (uint64_t)slot_index(sides->space, sides->native) << LENDER_SLOT_SHIFT |
           (uint64_t)(uint32_t)sides->tid << LENDER_THREAD_SHIFT;
}

static struct call_lender *try_lender(const struct sides *sides, unsigned index)
{
    struct call_lender *lender = &sides->member->lenders[index];
    uint64_t idle = LENDER_IDLE, lent = lent_to(sides);
    if (atomic_compare_exchange_strong(&lender->state, &idle, lent)) {
        sides->thread->hint = index;
        lender->own = sides->pointer;
        return lender;
    }
    if (idle == lent && !is_in_chain(sides->thread->current, lender))
        abandon(sides, lender);
    return NULL;
}

static struct call_lender *find_lender(const struct sides *sides, int *is_full)
{
    *is_full = 1;
    for (unsigned i = 0; i < CALL_LENDERS; i++) {
        unsigned at = (sides->thread->hint + i) % CALL_LENDERS;
        struct call_lender *lender = try_lender(sides, at);
        if (lender)
            return lender;
        *is_full &= call_kind(atomic_load(&sides->member->lenders[at].state)) == LENDER_LENT;
    }
    return NULL;
}

/* Why there is none, while none can be expected; 0: one is being made. */
static int refuse_to_wait(const struct sides *sides, int is_full)
{
    if (atomic_load(&sides->member->gone) || !slot_is_alive(space_state(sides->callee)))
        return call_fail(-EOWNERDEAD, "member %d has ended", sides->id);
    if (is_full)
        return call_fail(-EAGAIN,
                         "%d calls into member %d are under way, and there can be no more at the "
                         "same time",
                         CALL_LENDERS, sides->id);
    uint32_t error = atomic_exchange(&sides->member->failed, 0);
    if (error)
        return call_fail(-EAGAIN,
                         "member %d can make no further thread that lends itself to calls: %s: "
                         "raise the limit of processes (ulimit -u)",
                         sides->id, strerror((int)error));
    return 0;
}

/* NULL: *failed is the error. */
static struct call_lender *await_lender(const struct sides *sides, int *failed)
{
    struct call_member *member = sides->member;
    uint64_t deadline = 0;
    for (;;) {
        int is_full;
        uint32_t seen = atomic_load_explicit(&member->ready, memory_order_acquire);
        struct call_lender *lender = find_lender(sides, &is_full);
        if (lender)
            return lender;
        deadline = deadline ? deadline : futex_deadline(WAIT_MS);
        *failed = refuse_to_wait(sides, is_full);
        if (!*failed && futex_now_ns() >= deadline)
            *failed = call_fail(-EAGAIN,
                                "member %d makes no further thread that lends itself to calls: is "
                                "it stopped?",
                                sides->id);
        if (*failed)
            return NULL;
        futex_bump(&member->wanted);
        futex_wait(&member->ready, seen, futex_deadline(SLICE_MS));
    }
}

/* ---- The call ---- */

/* The call that a context of the callee's waits for in this thread, or NULL. */
static struct call_frame *find_waiting(const struct sides *sides)
{
    struct call_frame *at = sides->thread->current;
    while (at && at->caller != sides->id)
        at = at->prev;
    return at;
}

static void fill(struct call_frame *frame, const struct sides *sides, uintptr_t function,
                 const intptr_t *arguments)
{
    struct call_thread *thread = sides->thread;
    frame->arch.own_pointer = arch_thread_pointer();
    frame->arch.function = function;
    frame->arch.arguments = arguments;
    frame->arch.leave = arch_remote_call_leave;
    frame->arch.armed = 0;
    frame->prev = thread->current;
    frame->caller_lender = thread->lender;
    frame->caller_current = &thread->current;
    frame->caller_boundary = (uintptr_t)arch_remote_call_boundary;
    frame->caller = atomic_load_explicit(&sides->self->id, memory_order_relaxed);
    frame->callee = sides->id;
    frame->native = (int32_t)slot_index(sides->space, sides->native);
    frame->depth = thread->current ? thread->current->depth + 1 : 1;
    frame->ended_thread = 0;
    frame->detail[0] = 0;
}

static const uint32_t never = 0;

static void enter_waiting(struct call_frame *frame, const struct call_frame *waiting)
{
    const struct call_lender *lender = waiting->caller_lender;
    frame->arch.gone = lender ? (const uint32_t *)&call_member_of(lender)->gone : &never;
    frame->lender = waiting->caller_lender;
    frame->arch.pointer = waiting->arch.own_pointer;
    frame->arch.stack = (waiting->arch.own_stack - RED_ZONE) & -(uintptr_t)16;
    frame->arch.boundary = waiting->caller_boundary;
    frame->callee_current = waiting->caller_current;
}

static void enter_lender(struct call_frame *frame, struct call_lender *lender,
                         const struct call_member *member)
{
    frame->lender = lender;
    frame->arch.gone = (const uint32_t *)&member->gone;
    frame->arch.pointer = lender->pointer;
    frame->arch.stack = lender->stack;
    frame->arch.boundary = lender->boundary;
    frame->callee_current = (struct call_frame **)lender->current;
}

/* The last use of the callee's memory. */
static void give_back(const struct sides *sides, struct call_frame *frame)
{
    if (frame->ended_thread)
        call_give_up(frame->lender, LENDER_RETIRED);
    else /* Release: the next borrower sees the context as this call left it. */
        atomic_store_explicit(&frame->lender->state, LENDER_IDLE, memory_order_release);
    if (atomic_load_explicit(&sides->member->gone, memory_order_relaxed)) {
        atomic_thread_fence(memory_order_seq_cst);
        reaper_recheck(sides->space);
    }
}

/* A lender that was taken for nothing. By then it may have been cleared for another member. */
static void give_back_unused(const struct sides *sides, struct call_lender *lender)
{
    uint64_t lent = lent_to(sides);
    atomic_compare_exchange_strong(&lender->state, &lent, LENDER_IDLE);
    futex_bump(&sides->member->ready); /* for who has found none meanwhile */
    reaper_recheck(sides->space);
}

static int explain(const struct call_frame *frame, long status)
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

/* Whether the lender that was just taken is the callee's, who lives: `gone` first (calls.h). */
static int is_the_callees(const struct sides *sides)
{
    return !atomic_load(&sides->member->gone) &&
           atomic_load(&sides->member->owner) == (uint32_t)sides->id + 1;
}

/* NULL: *failed is the error. */
static struct call_lender *take_lender(const struct sides *sides, int *failed)
{
    struct call_lender *lender = await_lender(sides, failed);
    if (!lender || is_the_callees(sides))
        return lender;
    give_back_unused(sides, lender);
    *failed = call_fail(-EOWNERDEAD, "member %d has ended", sides->id);
    return NULL;
}

/* The context that this call came back to may be one of a member that has ended meanwhile: then the
 * call that it runs ends, too. */
static void leave_ended_context(struct call_thread *thread)
{
    if (thread->lender && atomic_load(&call_member_of(thread->lender)->gone))
        thread->current->arch.leave(&thread->current->arch, -EOWNERDEAD);
}

static long switch_to(struct call_frame *frame, const struct sides *sides)
{
    uint64_t mask = 0;
    if (sides->blocks)
        mask = signals_set_mask(~signal_bit(CALL_SIGNAL));
    frame->outer = *frame->callee_current;
    *frame->callee_current = frame;
    long status = arch_remote_call_switch(&frame->arch);
    *frame->callee_current = frame->outer;
    if (sides->blocks)
        signals_set_mask(mask);
    return status;
}

/* arch_may_set_thread_pointer, which asks libc, once. */
static int may_set_pointer(void)
{
    /* Any thread of the program writes and reads it; all write the same value, so it orders
     * nothing. -1: not known yet. */
    static _Atomic int known = -1;
    int may = atomic_load_explicit(&known, memory_order_relaxed);
    if (may < 0) {
        may = arch_may_set_thread_pointer();
        atomic_store_explicit(&known, may, memory_order_relaxed);
    }
    return may;
}

/* Precondition: the lender is taken, or the callee waits in this thread. */
static int call_taken(const struct sides *sides, struct call_lender *lender,
                      const struct call_frame *waiting, uintptr_t function,
                      const intptr_t *arguments, intptr_t *result)
{
    static _Atomic int by_call = -1;
    struct call_frame frame;
    if (atomic_load_explicit(&by_call, memory_order_relaxed) < 0) {
        call_prepare_unwinding();
        atomic_store(&by_call, !arch_may_set_thread_pointer());
    }
    if (lender)
        enter_lender(&frame, lender, sides->member);
    else
        enter_waiting(&frame, waiting);
    fill(&frame, sides, function, arguments);
    frame.arch.by_call = (uint32_t)atomic_load_explicit(&by_call, memory_order_relaxed);
    long status = switch_to(&frame, sides);
    if (lender)
        give_back(sides, &frame);
    else if (frame.ended_thread && frame.outer)
        frame.outer->ended_thread = 1; /* its lender is retired when that call returns */
    if (status < 0)
        return explain(&frame, status);
    if (result)
        *result = frame.arch.result;
    return 0;
}

/* ---- Checks ---- */

static int serves(const struct sides *sides)
{
    /* Acquire, pairs with the releases of who mapped the table and of who serves. */
    return atomic_load_explicit(&sides->space->calls, memory_order_acquire) &&
           atomic_load_explicit(&sides->member->owner, memory_order_acquire) ==
               (uint32_t)sides->id + 1;
}

/* A task that was started to serve may still be on its way to its main. Its agent takes the flag
 * back if that fails. */
static int await_service(const struct sides *sides)
{
    uint64_t deadline = futex_deadline(WAIT_MS);
    const volatile uint32_t *flags = &sides->callee->flags;
    while (!serves(sides) && (*flags & ONESPACE_SPAWN_CALLS) && futex_now_ns() < deadline &&
           slot_is_alive(space_state(sides->callee)) &&
           slot_find(sides->space, sides->id) == sides->callee)
        futex_wait(&sides->callee->ended, 0, futex_deadline(SLICE_MS));
    return serves(sides);
}

static int check_sides(struct sides *sides)
{
    struct call_thread *thread = sides->thread;
    if (space_is_thread(sides->self) || space_is_thread(sides->callee))
        return call_fail(-ENOTSUP,
                         "member %d is in thread mode, which takes no part in calls: start it "
                         "without ONESPACE_SPAWN_THREAD",
                         space_is_thread(sides->self) ? atomic_load(&sides->self->id) : sides->id);
    if (!slot_is_alive(space_state(sides->callee)))
        return call_fail(-EOWNERDEAD, "member %d has ended", sides->id);
    if (serves(sides) || (thread->current && find_waiting(sides)) || await_service(sides))
        return 0;
    if (!slot_is_alive(space_state(sides->callee)))
        return call_fail(-EOWNERDEAD, "member %d has ended", sides->id);
    return call_fail(-ENOTSUP,
                     "member %d does not serve calls: let it call onespace_call_serve, or start "
                     "it with ONESPACE_SPAWN_CALLS; static programs cannot",
                     sides->id);
}

static void find_native(struct sides *sides)
{
    struct call_thread *thread = sides->thread;
    if (thread->lender) {
        uint64_t state = atomic_load(&thread->lender->state);
        sides->native = &sides->space->slots[call_borrower(state)];
        sides->tid = call_borrower_thread(state);
        sides->pointer = thread->lender->own;
        return;
    }
    if (!thread->id)
        thread->id = raw(__NR_gettid);
    sides->native = sides->self;
    sides->tid = thread->id;
    sides->pointer = arch_thread_pointer();
}

/* As call_taken, with a lender that is given back in any case. */
static int call_checked(struct sides *sides, struct call_lender *lender,
                        const struct call_frame *waiting, uintptr_t function,
                        const intptr_t *arguments, intptr_t *result)
{
    int failed = call_check_function(sides->space, sides->callee, sides->id, function);
    if (failed && lender)
        give_back_unused(sides, lender);
    if (failed)
        return failed;
    if (!sides->thread->current && !sides->blocks) {
        sides->thread->checked_function = function;
        sides->thread->checked_id = sides->id;
        sides->thread->checked_in = sides->space->created_ns;
    }
    return call_taken(sides, lender, waiting, function, arguments, result);
}

static int call_other(struct sides *sides, uintptr_t function, const intptr_t *arguments,
                      intptr_t *result)
{
    int failed = check_sides(sides);
    if (failed)
        return failed;
    find_native(sides);
    drop_abandoned_calls_back(sides, (uintptr_t)__builtin_frame_address(0));
    if (!atomic_load_explicit(&sides->callee->was_called, memory_order_relaxed))
        atomic_store(&sides->callee->was_called, 1);
    /* Before a lender is taken: the reaper finds it then. Inside another call it is done. */
    sides->blocks = !sides->thread->current &&
                    call_prepare_signals(sides->space, sides->native, may_set_pointer());
    const struct call_frame *waiting = sides->thread->current ? find_waiting(sides) : NULL;
    struct call_lender *lender = waiting ? NULL : take_lender(sides, &failed);
    if (lender || waiting)
        failed = call_checked(sides, lender, waiting, function, arguments, result);
    leave_ended_context(sides->thread);
    return failed;
}

/* The lender of the thread's last call, if that was the same and this one is like it; NULL: find
 * out all that call_other does. */
static struct call_lender *take_again(struct sides *sides, uintptr_t function)
{
    struct call_thread *thread = sides->thread;
    if (thread->checked_function != function || thread->checked_id != sides->id ||
        thread->checked_in != sides->space->created_ns || thread->current)
        return NULL;
    find_native(sides);
    struct call_lender *lender = try_lender(sides, thread->hint);
    if (!lender || is_the_callees(sides))
        return lender;
    give_back_unused(sides, lender);
    return NULL;
}

typedef intptr_t six_arguments(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t);

int onespace_call_with(int id, const void *function, const intptr_t *arguments, intptr_t *result)
{
    struct sides sides = {.space = space_mine(), .id = id};
    if (!sides.space)
        return call_fail(-EPERM, "the caller is no member of a space: call onespace_init first");
    if (!function)
        return call_fail(-EINVAL, "the function is NULL");
    sides.self = space_self();
    sides.thread = call_thread();
    sides.member = &call_table()->members[slot_index_of_id(id)];
    struct call_lender *lender = take_again(&sides, (uintptr_t)function);
    if (lender)
        return call_taken(&sides, lender, NULL, (uintptr_t)function, arguments, result);
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
    /* The function would change its own member's memory, and a signal handler its own, by one
     * thread with one set of rights. */
    if (sides.self->guard_key || sides.callee->guard_key)
        return call_fail(-ENOTSUP, "calls between guarded tasks are not possible: start them "
                                   "without --guard");
    return call_other(&sides, (uintptr_t)function, arguments, result);
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
