/* onespace/call.h: call a function of another member, on the caller's thread.
 *
 * A call runs a function in the context of another member (the callee): with its thread-local
 * storage, so its errno, and its heap, on the stack of one of its threads. No other thread is woken
 * and nothing is copied: a call costs some tens of nanoseconds, and pointers mean the same on both
 * sides. An analysis can be a program of its own, with a libc and libraries of its own, that a
 * simulation calls at any time (examples/call.c).
 *
 * The callee lends threads for that: it calls onespace_call_serve once, or its spawner asks for it
 * (ONESPACE_SPAWN_CALLS). Such a donor is a thread of the callee that sleeps; while it is lent, its
 * storage belongs to one caller. Calls of several threads run at the same time, so the functions
 * must be thread-safe, as for threads of the callee. The next call may use another donor's
 * thread-local storage.
 *
 * To the kernel, the caller's thread runs the function. So in the function
 *
 *   are the callee's:  globals, heap, errno, locale, thread-local storage, pthread_self, stack,
 *                      onespace_self
 *   are the caller's:  file descriptors, PID and TID (getpid, gettid), signal handlers and mask,
 *                      working directory, umask, limits, credentials, CPU time and affinity
 *
 * A function may allocate, format, lock mutexes, compute, use stdio on its own streams if it knows
 * that their descriptors are the caller's, and call other members, also back into the caller, in
 * the thread that waits there. It must not make threads or processes (pthread_create, fork,
 * system), end the process (exit, execve), set signal handlers or masks, or use mutexes with
 * priority inheritance: all of these would affect the caller's process. docs/calls.md has the list.
 *
 * How a call may end:
 *   - The function returns.
 *   - It throws an exception that nothing in it catches, or ends its thread (pthread_exit,
 *     cancellation): its stack is unwound as usual, and the call returns -ECANCELED.
 *   - The callee ends or executes another program: the call returns -EOWNERDEAD, even if the
 *     function waits for something that died with the callee. Its stack is not unwound. Until then
 *     the callee's memory stays mapped.
 *   - A jump (siglongjmp from a signal handler of the caller, longjmp in a call back) leaves it:
 *     the call does not return; the donor is not used again.
 *   - The caller ends: the callee continues. Locks of the function stay locked. A crash in the
 *     function is the caller's.
 *
 * Not with tasks in thread mode, on either side (-ENOTSUP). Not from signal handlers.
 *
 * Conventions as in onespace.h: 0 or -errno with out-parameters untouched. onespace_call_message
 * explains a failure. Since 0.1.0. (Process-in-Process, HPDC'18, section 3: tasks can call one
 * another's functions, except that they lack the thread-local storage that this lends.) */
#ifndef ONESPACE_CALL_H
#define ONESPACE_CALL_H

#include <onespace.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ONESPACE_CALL_LENDERS   64 /* donor threads of a member: concurrent calls into it */
#define ONESPACE_CALL_ARGUMENTS 6  /* arguments of a function */

/* Lends threads of the caller's to other members' calls, from now on until it ends. Makes two
 * threads, further ones when there are more calls at the same time; all signals are blocked in
 * them. Idempotent. 0. -EPERM outside a space; -ENOTSUP: in thread mode; -EAGAIN: no thread can be
 * made; -ENOMEM; -EPROTO: another version of onespace serves in the space. */
ONESPACE_API ONESPACE_CHECK int onespace_call_serve(void);

/* A function that can be called: one pointer in, a pointer or integer out. */
typedef intptr_t onespace_call_function(void *argument);

/* Calls `function`, an address of code of member `id` (as from onespace_lookup), with `argument`,
 * and stores its result in *result, which may be NULL. A call to oneself is a plain call.
 *
 * -ESRCH: there is no such member. -EOWNERDEAD: it has ended or executed another program, before
 * or during the call. -ENOTSUP: it does not serve calls, or is or the caller is in thread mode.
 * -EINVAL: function is NULL, or no code of that member. -ECANCELED: the function threw an exception
 * or ended its thread. -EAGAIN: ONESPACE_CALL_LENDERS calls into it are under way, or it can make
 * no thread. -EPERM outside a space. */
ONESPACE_API ONESPACE_CHECK int onespace_call(int id, onespace_call_function *function,
                                              void *argument, intptr_t *result);

/* The same with up to six arguments that are integers or pointers, for a function of any such type:
 * `arguments` has ONESPACE_CALL_ARGUMENTS entries, of which the function uses the first ones. */
ONESPACE_API ONESPACE_CHECK int onespace_call_with(int id, const void *function,
                                                   const intptr_t *arguments, intptr_t *result);

/* The same by name: onespace_lookup, then onespace_call_with. For repeated calls look up once. Also
 * -ENOENT: there is no such function. */
ONESPACE_API ONESPACE_CHECK int onespace_call_name(int id, const char *name,
                                                   const intptr_t *arguments, intptr_t *result);

/* Describes the error and its fix, for the calling thread's last call above that failed; "" if
 * there was none. Valid until its next failure. */
ONESPACE_API const char *onespace_call_message(void);

#ifdef __cplusplus
}
#endif
#endif
