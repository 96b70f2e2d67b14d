/* src/space/force_locking.c: make this program's libc use atomic instructions.
 *
 * As long as a program has made no thread, its libc omits atomic instructions: glibc in mutexes
 * that are not process-shared and in malloc, libstdc++ in the counts of std::shared_ptr. Tasks
 * share memory without being threads of one another, so two such programs could both acquire a
 * lock. Making one thread ends that for good: the libc then uses atomic instructions even when the
 * thread has ended. */
#include "space/force_locking.h"

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
    /* The program's signals must not be delivered to this thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 * 1024);
    int error = pthread_create(&thread, &attr, nothing, NULL);
    if (error == 0)
        pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    /* Where threads are forbidden (a filter that answers clone3 with EPERM) this is no failure: the
     * program cannot have threads of its own either. */
    return error && error != EPERM ? -EAGAIN : 0;
}
