/* src/cpu/remote_call.h: running a function with the thread pointer and on the stack of another
 * program's thread.
 *
 * Three pieces of code (remote_call.S of the CPU), of up to two copies of the library:
 *
 *   arch_remote_call_switch    of the caller's copy. Leaves its own stack and thread pointer, calls
 *                              the boundary, and comes back.
 *
 *   arch_remote_call_boundary  of the callee's copy, so that the callee's unwinder knows it. Calls
 *                              the function. Its personality routine ends every unwinding that
 *                              reaches it.
 *
 *   arch_remote_call_leave     of the caller's copy. From anywhere below back to where
 *                              arch_remote_call_switch was called from, which then returns the
 * given status. */
#ifndef ONESPACE_CPU_REMOTE_CALL_H
#define ONESPACE_CPU_REMOTE_CALL_H

/* Offsets for remote_call.S, asserted in remote_call.c. */
#define ARCH_FRAME_OWN_STACK   0
#define ARCH_FRAME_OWN_POINTER 8
#define ARCH_FRAME_POINTER     16
#define ARCH_FRAME_STACK       24
#define ARCH_FRAME_BOUNDARY    32
#define ARCH_FRAME_FUNCTION    40
#define ARCH_FRAME_ARGUMENTS   48
#define ARCH_FRAME_GONE        56
#define ARCH_FRAME_RESULT      64
#define ARCH_FRAME_LEAVE       72
#define ARCH_FRAME_ARMED       80
#define ARCH_FRAME_BY_CALL     84
#define ARCH_FRAME_FLOATING    88
#define ARCH_FRAME_CONTROL     92

#ifndef __ASSEMBLER__

#include <stdint.h>

/* One call. Lies in the caller's memory; crosses programs, as part of struct call_frame. */
struct arch_remote_call_frame {
    uintptr_t own_stack;       /* the caller's stack pointer; by arch_remote_call_switch */
    uintptr_t own_pointer;     /* the caller's thread pointer */
    uintptr_t pointer;         /* the callee's */
    uintptr_t stack;           /* where the callee's frames begin: a multiple of 16 */
    uintptr_t boundary;        /* arch_remote_call_boundary of the callee's copy */
    uintptr_t function;        /* of the callee */
    const intptr_t *arguments; /* six, for the registers of integers and pointers */
    const uint32_t *gone;      /* not 0: the callee has ended */
    intptr_t result;
    /* arch_remote_call_leave of this copy. */
    void (*leave)(struct arch_remote_call_frame *, long status);
    uint32_t armed;    /* 1 from before the function to after it: the call may be left. Only the
                          calling thread and its signal handlers use it */
    uint32_t by_call;  /* 1: the thread pointer is set by a system call */
    uint32_t floating; /* the caller's MXCSR or FPCR; by arch_remote_call_switch */
    uint16_t control;  /* and the x87's control word */
    uint16_t unused;
};

/* Runs frame->function. Returns 0 with frame->result set, -EOWNERDEAD if the callee had ended
 * before, or what arch_remote_call_leave was given. */
long arch_remote_call_switch(struct arch_remote_call_frame *frame);
/* Does not return. Unwinds nothing: the frames between are abandoned. */
void arch_remote_call_leave(struct arch_remote_call_frame *frame, long status);
/* Never called from C. */
void arch_remote_call_boundary(void);

/* Called when an unwinding reaches a boundary and all frames below have been unwound: by an
 * exception (of that class, as in the C++ ABI) or, `forced`, by a thread that ends. Must not
 * return. Belongs to the copy of the library that has the boundary; set before the first call. */
extern void (*arch_remote_call_unwound)(int forced, uint64_t class, void *exception);

#endif /* __ASSEMBLER__ */

#endif
