/* tests/differential/guests/steps/threads.c: threads that run steps while the others wait, and
 * threads that make noise. A thread that waits blocks all signals, so that those sent to the
 * process come to the one that runs. */
#include "steps.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct work {
    int end, way;
    sem_t go;
};

static __thread int of_thread = 17;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int destroyed;
static pthread_mutex_t robust;

static void destroy(void *value)
{
    destroyed += (int)(intptr_t)value;
}

static void prepare(void)
{
    pthread_mutexattr_t attributes;
    pthread_key_create(&key, destroy);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
}

static void *run_thread(void *argument)
{
    struct work *work = argument;
    while (sem_wait(&work->go) != 0)
        ;
    say(" tls %d", of_thread);
    of_thread = work->way;
    end_line();
    pthread_setspecific(key, (void *)(intptr_t)1);
    run_steps(work->end);
    if (work->way % 4 == 1)
        pthread_exit((void *)(intptr_t)(work->way + of_thread));
    if (work->way % 4 == 2)
        pthread_mutex_lock(&robust); /* ends as its owner */
    return (void *)(intptr_t)work->way;
}

/* count way stack: a thread runs the next steps */
OPERATION(thread)
{
    struct work work = {.end = end_of(a[0] % 32 + 1), .way = a[1]};
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, mask;
    void *value = NULL;
    pthread_once(&once, prepare);
    sem_init(&work.go, 0, 0);
    pthread_attr_init(&attributes);
    if (a[2] % 2)
        pthread_attr_setstacksize(&attributes, (size_t)(a[2] % 32 + 8) << 16);
    int error = pthread_create(&thread, &attributes, run_thread, &work);
    pthread_attr_destroy(&attributes);
    say(" %d", error);
    if (error)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &mask);
    sem_post(&work.go);
    error = pthread_join(thread, &value);
    next_step = work.end;
    say(" joined %d %d destroyed %d", error, (int)(intptr_t)value, destroyed);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    error = pthread_mutex_trylock(&robust);
    say(" lock %d", error);
    if (error == EOWNERDEAD)
        pthread_mutex_consistent(&robust);
    if (error == 0 || error == EOWNERDEAD)
        pthread_mutex_unlock(&robust);
}

static void *wait_forever(void *argument)
{
    sem_post(argument);
    for (;;)
        pause();
    return NULL;
}

static void *never_cancelled(void *argument)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    sem_post(argument);
    sem_wait((sem_t *)argument + 1);
    return (void *)5;
}

/* Cancels a thread that waits, or one that cannot be cancelled. */
OPERATION(cancel)
{
    sem_t ready[2];
    pthread_t thread;
    sigset_t all, mask;
    void *value = NULL;
    sem_init(&ready[0], 0, 0);
    sem_init(&ready[1], 0, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &mask);
    int error =
        pthread_create(&thread, NULL, a[0] % 3 == 2 ? never_cancelled : wait_forever, ready);
    say(" %d", error);
    if (!error) {
        while (sem_wait(&ready[0]) != 0)
            ;
        say(" %d", pthread_cancel(thread));
        sem_post(&ready[1]);
        say(" %d", pthread_join(thread, &value));
        say(value == PTHREAD_CANCELED ? " cancelled" : " %d", (int)(intptr_t)value);
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void *post(void *argument)
{
    sem_post(argument);
    return NULL;
}

/* Static, since the thread may still be in sem_post when we go on. */
static sem_t detached_is_done;

OPERATION(detached)
{
    pthread_t thread;
    sigset_t all, mask;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &mask);
    int error = pthread_create(&thread, NULL, post, &detached_is_done);
    say(" %d", error);
    if (!error) {
        say(" %d", pthread_detach(thread));
        while (sem_wait(&detached_is_done) != 0)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* Allocates, maps and unmaps beside everything else, and checks what it wrote. */
static void *make_noise(void *argument)
{
    (void)argument;
    for (unsigned n = 1;; n++) {
        size_t size = (size_t)(n % 13 + 1) * 3000;
        unsigned char *block = malloc(size);
        unsigned char *map =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (!block || map == MAP_FAILED)
            _exit(96);
        memset(block, (int)n, size);
        memset(map, (int)~n, size);
        usleep(100);
        for (size_t i = 0; i < size; i++)
            if (block[i] != (unsigned char)n || map[i] != (unsigned char)~n)
                _exit(95);
        munmap(map, size);
        free(block);
    }
    return NULL;
}

/* Starts such a thread, one at most; it ends with the process. */
OPERATION(noise)
{
    static pid_t noisy;
    pthread_t thread;
    sigset_t all, mask;
    if (noisy == getpid())
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &mask);
    int error = pthread_create(&thread, NULL, make_noise, NULL);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    say(" %d", error);
    noisy = error ? noisy : getpid();
}

/* Whether the stack that the libc reports is the one that we are on. */
OPERATION(stack)
{
    pthread_attr_t attributes;
    void *start = NULL;
    size_t size = 0;
    int error = pthread_getattr_np(pthread_self(), &attributes);
    if (!error) {
        pthread_attr_getstack(&attributes, &start, &size);
        pthread_attr_destroy(&attributes);
    }
    say(" %d %s", error,
        (char *)&size > (char *)start && (char *)&size < (char *)start + size ? "here"
                                                                              : "elsewhere");
}

OPERATION(tls)
{
    say(" %d %d", of_thread, errno = a[0]);
    of_thread += a[0];
}
