/* src/remote_call/remote_call.h: who lends threads for calls (onespace/call.h), in memory of the
 * root's range.
 *
 * A member that serves calls has lenders: threads of its own that sleep while another member's
 * thread uses their thread pointer and the rest of their stack. The table lies at a fixed address,
 * is mapped when the first member serves, and outlives every task: the reaper and signal handlers
 * read it without asking whether a member still lives.
 *
 * States of a lender, and who changes them:
 *
 *   FREE   -> MAKING   the member's maker thread (remote_call/serve.c), which then creates the
 * thread MAKING -> IDLE     the thread itself; -> FREE the maker, if it cannot be created IDLE   ->
 * LENT     a caller, by compare-and-swap, with its slot and thread in the same word LENT   -> IDLE
 * the caller, when the function has returned or was left LENT   -> RETIRED  the caller, when the
 * function has ended the thread LENT   -> LOST     the caller, when an earlier call of its thread
 * was abandoned by a jump; the reaper, when the caller has died RETIRED -> FREE    the thread,
 * which ends as threads end LOST   -> FREE     the thread, which ends without a word to its libc:
 * what the function left half done may be anything, so no destructor may run
 *
 * A lender that is LENT holds the member's memory, as an import does (space/member.h):
 *
 *   caller:  IDLE -> LENT                       reaper:  gone = 1
 *            gone = 0, and owner the callee?             any LENT? a signal to its thread
 *            it uses the memory; LENT -> IDLE            any LENT? the memory stays
 *            else LENT -> IDLE, too late                 else unmap
 *
 * The left three words and the right two are sequentially consistent, so at least one of the two
 * sees the other: the call is not made, or its thread gets the signal, whose handler leaves the
 * call (remote_call/signals.c), and the memory stays until it has. Who is too late may find the
 * lender of the next member in that slot, and gives back only what is still LENT to itself. The
 * word `gone` is read before `owner`, since the next member writes them in the other order.
 *
 * Giving a lender back is a plain store: the reaper looks again while any is LENT
 * (remote_call/ends.c). */
#ifndef ONESPACE_CALL_REMOTE_CALL_H
#define ONESPACE_CALL_REMOTE_CALL_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/shared_header.h"
#include "space/layout.h"

enum {
    CALL_LENDERS = 64, /* of a member: calls into it at the same time */
};

enum call_lender_kind {
    LENDER_FREE,
    LENDER_MAKING,
    LENDER_IDLE,
    LENDER_LENT,
    LENDER_RETIRED,
    LENDER_LOST,
};
enum { LENDER_KIND_MASK = 0xff, LENDER_SLOT_SHIFT = 8, LENDER_THREAD_SHIFT = 32 };

struct call_lender {
    /* enum call_lender_kind, above it (LENT) the caller's slot, above that the caller's TID. */
    _Alignas(64) _Atomic uint64_t state;
    /* By the thread, before it is IDLE. */
    uintptr_t pointer;     /* its thread pointer */
    uintptr_t stack;       /* where the frames of calls begin */
    uintptr_t boundary;    /* arch_remote_call_boundary of its program */
    uintptr_t current;     /* address of its struct call_frame *, NULL while it is not lent */
    uintptr_t own;         /* by the caller while LENT: the thread pointer of its kernel thread */
    _Atomic uint32_t wake; /* futex: the thread sleeps on it; bumped by who retires it */
};

struct call_member {
    _Alignas(64) _Atomic uint32_t owner; /* id + 1 of the member that serves, 0: none has */
    _Atomic uint32_t gone;   /* by the reaper: it has ended or left. 0 when another one serves */
    _Atomic uint32_t wanted; /* futex: bumped by callers that find no idle lender */
    _Atomic uint32_t ready;  /* futex: bumped when a lender was made, or could not be */
    _Atomic uint32_t failed; /* errno of the last thread that could not be made, or 0 */
    _Atomic uint32_t calls;  /* sticky: a thread of the member in this slot has made a call */
    struct call_lender lenders[CALL_LENDERS];
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

static inline enum call_lender_kind call_kind(uint64_t state)
{
    return (enum call_lender_kind)(state & LENDER_KIND_MASK);
}

static inline unsigned call_borrower(uint64_t state)
{
    return (uint32_t)state >> LENDER_SLOT_SHIFT;
}

static inline int32_t call_borrower_thread(uint64_t state)
{
    return (int32_t)(state >> LENDER_THREAD_SHIFT);
}

static inline struct call_member *call_member_of(const struct call_lender *lender)
{
    return &call_table()->members[((uintptr_t)lender - (uintptr_t)call_table()->members) /
                                  sizeof(struct call_member)];
}

#endif
