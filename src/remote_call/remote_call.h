/* src/remote_call/remote_call.h: calls of functions of other members (onespace/call.h): the table
 * of donors, and the state of a call.
 *
 * A member that serves calls has donors: threads of its own that sleep while another member's
 * thread uses their thread pointer and the rest of their stack. The table of donors lies at a fixed
 * address in the root's range. It is mapped when the first member serves, and outlives every task,
 * so the reaper and signal handlers may read it at any time.
 *
 * States of a donor, and the thread that changes them:
 *
 *   FREE     -> STARTING  the member's donor factory (serve.c), which then creates the thread
 *   STARTING -> IDLE      the donor; -> FREE the factory, if the thread cannot be created
 *   IDLE     -> LENT      a caller, by compare-and-swap, with its slot and thread in the same word
 *   LENT     -> IDLE      the caller, when the function has returned or was aborted
 *   LENT     -> RETIRED   the caller, when the function has ended the thread
 *   LENT     -> LOST      the caller, when a jump has abandoned an earlier call of its thread; the
 *                         reaper, when the caller has died
 *   RETIRED  -> FREE      the donor, which exits through its libc
 *   LOST     -> FREE      the donor, which exits by the system call alone: the function may have
 *                         stopped at any point, so no destructor may run
 *
 * A donor that is LENT holds the member's memory, as an import does (space/member.h):
 *
 *   caller:  IDLE -> LENT                        reaper:  gone = 1
 *            gone = 0, and owner the callee?              any LENT? signal its thread
 *            yes: use the memory; LENT -> IDLE            any LENT? keep the memory
 *            no:  too late; LENT -> IDLE                  none: unmap
 *
 * The accesses of the three words `state`, `gone` and `owner` are sequentially consistent, so at
 * least one side sees the other: either the caller gives up the call, or its thread gets the
 * signal, whose handler aborts the call (signals.c), and the memory stays until then. A caller that
 * is too late may have taken a donor of the next member in that slot. It releases the donor only if
 * it is still LENT to the caller. It reads `gone` before `owner`, because the next member writes
 * them in the other order.
 *
 * Releasing a donor is a plain store: the reaper polls while any is LENT (reaper_hook.c). */
#ifndef ONESPACE_REMOTE_CALL_H
#define ONESPACE_REMOTE_CALL_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "arch/remote_call.h"
#include "base/shared_header.h"
#include "space/layout.h"
#include "space/registry.h"

enum {
    CALL_DONORS = 64, /* per member: concurrent calls into it */
    CALL_DETAIL = 96,
    CALL_SIGNAL = 33, /* Reserved by glibc, so no program blocks it. Also ends threads of tasks in
                         thread mode (interpose/interpose.h), which make no calls. */
};

/* ---- The table of donors ---- */

enum donor_state {
    DONOR_FREE,
    DONOR_STARTING,
    DONOR_IDLE,
    DONOR_LENT,
    DONOR_RETIRED,
    DONOR_LOST,
};
enum { DONOR_STATE_MASK = 0xff, DONOR_SLOT_SHIFT = 8, DONOR_THREAD_SHIFT = 32 };

struct call_donor {
    /* enum donor_state; above it (LENT) the caller's slot; above that the caller's TID. */
    _Alignas(64) _Atomic uint64_t state;
    /* Written by the donor before it becomes IDLE. */
    uintptr_t pointer;          /* its thread pointer */
    uintptr_t stack;            /* where the frames of calls begin */
    uintptr_t boundary;         /* arch_remote_call_boundary of its program */
    uintptr_t current;          /* address of its struct call_frame *, which is NULL unless LENT */
    uintptr_t borrower_pointer; /* thread pointer of the caller's kernel thread; by the caller */
    _Atomic uint32_t wake;      /* futex the donor sleeps on; donor_discard bumps it */
};

struct call_member {
    _Alignas(64) _Atomic uint32_t owner; /* id + 1 of the member that serves; 0: none */
    _Atomic uint32_t gone; /* set by the reaper: the member has ended or left; 0 in a new member */
    _Atomic uint32_t wanted; /* futex; callers that find no idle donor bump it */
    _Atomic uint32_t ready;  /* futex; bumped when a donor starts or fails to start */
    _Atomic uint32_t failed; /* errno of the last donor that could not be created, or 0 */
    _Atomic uint32_t calls;  /* sticky: a thread of the member in this slot has made a call */
    struct call_donor donors[CALL_DONORS];
};

#define CALL_MAGIC UINT64_C(0x316c6c61636e6f31) /* "1oncall1" */

struct call_table {
    struct shared_header header;
    struct call_member members[LAYOUT_SLOTS];
};

static_assert(sizeof(struct call_table) < LAYOUT_GIB, "in the range of slot 0");

static inline struct call_table *call_table(void)
{
    return (struct call_table *)LAYOUT_CALLS;
}

static inline enum donor_state donor_state_of(uint64_t word)
{
    return (enum donor_state)(word & DONOR_STATE_MASK);
}

static inline unsigned donor_borrower_slot(uint64_t word)
{
    return (uint32_t)word >> DONOR_SLOT_SHIFT;
}

static inline int32_t donor_borrower_thread(uint64_t word)
{
    return (int32_t)(word >> DONOR_THREAD_SHIFT);
}

static inline struct call_member *donor_member(const struct call_donor *donor)
{
    return &call_table()->members[((uintptr_t)donor - (uintptr_t)call_table()->members) /
                                  sizeof(struct call_member)];
}

/* Sets the state RETIRED or LOST and wakes the donor, which exits. */
void donor_discard(struct call_donor *donor, enum donor_state state);

/* ---- Calls of one thread ----
 *
 * A kernel thread starts in its own program's context. A call switches it to a donor's context of
 * the callee, where it may make further calls. A call back into a program that waits in the same
 * thread runs in the waiting context, below its frames. So contexts nest like the frames of one
 * stack, however deep the recursion. */

/* A call that has not returned. It lies on the caller's stack. The callee's copy of the library,
 * the caller's signal handlers and nested calls of the same thread use it. */
struct call_frame {
    struct arch_remote_call_frame arch; /* first: arch.leave gets its address */
    struct call_frame *prev;            /* the call that the caller's context runs, or NULL */
    struct call_frame *outer;           /* the call that the callee's context ran before, or NULL */
    struct call_donor *donor;           /* the callee's context; NULL: the thread's own */
    struct call_donor *caller_donor;    /* the caller's context; NULL: the thread's own */
    struct call_frame **caller_current; /* where the caller's context stores its current call */
    struct call_frame **callee_current;
    uintptr_t caller_boundary;
    int32_t caller, callee;   /* ids */
    int32_t thread_owner;     /* slot index of the member that owns the kernel thread */
    uint32_t depth;           /* 1: made by the thread in its own context */
    uint32_t ended_thread;    /* the function has ended the donor's thread */
    char detail[CALL_DETAIL]; /* the exception that the function threw; by the callee */
};

/* One per thread of each program. A donor's lies in its own thread-local storage, so a borrower
 * finds the donor's. */
struct call_thread {
    struct call_frame *current; /* the call that this context runs, or NULL */
    struct call_donor *donor;   /* NULL: the thread is not a donor */
    int32_t id;                 /* TID of the thread itself, not of a borrower; 0: not known */
    uint32_t hint;              /* index of the last donor taken */
    /* The last call in the thread's own context that passed all checks. They need not be repeated
     * for the same callee and function, except that the callee may have ended. */
    uint64_t checked_in; /* created_ns of the space; 0: none */
    uintptr_t checked_function;
    int32_t checked_id;
};
struct call_thread *call_thread(void);

/* Stores a message for onespace_call_message and returns the error. */
int call_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Maps the table of donors unless it is mapped: 0 or -errno. */
int call_table_map(struct space *space);

/* Installs this library's handler of unwinding that reaches a call's boundary (unwind.c). */
void unwind_install_handler(void);

/* Installs the signal handlers that calls need (signals.c), once. Runs in the thread's own context.
 * The caller passes arch_may_set_thread_pointer(), because signals.c is freestanding. Returns 1 if
 * signals must be blocked during calls, else 0. */
int call_install_handlers(struct space *space, struct space_slot *self, int may_set_pointer);

/* Ends the donors of a root whose space ends (serve.c). */
void call_space_ends(struct space *space);

/* The hooks of this layer (space/member.h). */
extern const struct member_hooks call_hooks;

#endif
