/* src/remote_call/context.h: calls of one thread, and in which program's context it is.
 *
 * A kernel thread begins in its own program's context. A call takes it into a lender's context of
 * the callee, where it may make further calls. A call back into a program that waits in the same
 * thread goes on in the context that waits there, below its frames: its own thread for the program
 * whose thread it is. So contexts are used like one stack, however deep the recursion. */
#ifndef ONESPACE_CALL_CONTEXT_H
#define ONESPACE_CALL_CONTEXT_H

#include <stdatomic.h>
#include <stdint.h>

#include "arch/remote_call.h"
#include "remote_call/table.h"

enum { CALL_DETAIL = 96 };

/* A call that has not returned. Lies on the caller's stack; the callee's copy of the library, the
 * caller's signal handlers and nested calls of the same thread use it. */
struct call_frame {
    struct arch_remote_call_frame arch; /* first: arch.leave gets it */
    struct call_frame *prev;            /* the call that the caller's context runs, or NULL */
    struct call_frame *outer;           /* the call that the callee's context ran before, or NULL */
    struct call_lender *lender;         /* the callee's context; NULL: the thread's own */
    struct call_lender *caller_lender;  /* the caller's, likewise */
    struct call_frame **caller_current; /* where the caller's context has its current call */
    struct call_frame **callee_current;
    uintptr_t caller_boundary;
    int32_t caller, callee;   /* ids */
    int32_t native;           /* slot index of the member whose kernel thread it is */
    uint32_t depth;           /* 1: made by the thread in its own context */
    uint32_t ended_thread;    /* the function has ended the lender's thread */
    char detail[CALL_DETAIL]; /* what the function threw; by the callee */
};

/* One of each thread of each program: for a lender in its own thread-local storage, so that a
 * borrower finds the lender's. */
struct call_thread {
    struct call_frame *current; /* the call that this context runs, or NULL */
    struct call_lender *lender; /* NULL: not a lender's thread */
    int32_t id;                 /* TID, 0: not known; of the thread itself, not of a borrower */
    uint32_t hint;              /* index of the last lender */
    /* The last call in the thread's own context for which nothing had to be prepared, and nothing
     * was wrong: but for the callee's life all of that stays true. */
    uint64_t checked_in; /* created_ns of the space, 0: there was none */
    uintptr_t checked_function;
    int32_t checked_id;
};
struct call_thread *call_thread(void);

/* Stores a message for onespace_call_message and returns the error. */
int call_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Maps the table, or finds it: 0 or -errno. */
int call_map_table(struct space *space);

/* Makes this copy of the library ready for unwinding, once. */
void call_prepare_unwinding(void);
/* Puts the process's signal handlers in order, once. Called by a thread in its own context.
 * may_set_pointer: arch_may_set_thread_pointer(), which is for the caller to ask, because this
 * file is freestanding. 0; 1: signals must be blocked during calls. */
int call_prepare_signals(struct space *space, struct space_slot *self, int may_set_pointer);

/* Whether `function` is code of that member: 0, or -errno with a message. */
int call_check_function(struct space *space, const struct space_slot *slot, int id,
                        uintptr_t function);

#endif
