/* tests/interpose/guests/cancel.c: threads that leave at any instruction while they map and unmap:
 * one half cancelled, the other half by pthread_exit in a signal handler. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 200, SIZE = 1 << 16 };

static atomic_int started, cleaned;
static char left; /* what pthread_exit gives */

static void clean(void *nothing)
{
    (void)nothing;
    cleaned++;
}

static void leave(int signal)
{
    (void)signal;
    pthread_exit(&left);
}

static void *map_forever(void *nothing)
{
    pthread_cleanup_push(clean, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    started++;
    for (;;) {
        void *at = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(at, SIZE);
    }
    pthread_cleanup_pop(0);
    return nothing;
}

int main(void)
{
    int cancelled = 0, exited = 0;
    signal(SIGUSR1, leave);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        void *result;
        if (pthread_create(&thread, NULL, map_forever, NULL) != 0)
            return 1;
        while (started == i)
            usleep(100);
        usleep(100);
        if (i % 2 == 0)
            pthread_cancel(thread);
        else
            pthread_kill(thread, SIGUSR1);
        pthread_join(thread, &result);
        cancelled += result == PTHREAD_CANCELED;
        exited += result == &left;
    }
    printf("cancelled %d exited %d cleaned %d\n", cancelled, exited, cleaned);
    return 0;
}
