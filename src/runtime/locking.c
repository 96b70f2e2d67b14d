/* src/runtime/locking.c: tell this program's libc that it is not alone with its memory.
 *
 * A libc whose program never made a thread leaves atomic instructions out: glibc in the mutexes
 * that are not process-shared and in malloc, libstdc++ in the counts of std::shared_ptr. Tasks
 * share memory without being threads of one another, so two such programs would both enter a lock.
 * Making one thread settles it for good: from then on the libc takes every lock in earnest. */
#include "runtime/locking.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* glibc 2.32 and later; others have no such shortcut. */
extern char __libc_single_threaded __attribute__((weak));

static void *nothing(void *argument)
{
    return argument;
}

int locking_begin(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, mask;
    if (!&__libc_single_threaded || !__libc_single_threaded)
        return 0;
    /* The program's signals are not for this thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 * 1024);
    int error = pthread_create(&thread, &attr, nothing, NULL);
    if (error == 0)
        pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    /* Where threads are forbidden (a filter that answers clone3 with EPERM), this program goes on
     * without: it cannot have threads of its own either. */
    return error && error != EPERM ? -EAGAIN : 0;
}
