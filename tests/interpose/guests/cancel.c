/* tests/interpose/guests/cancel.c: threads that are cancelled at any instruction while they map and
 * unmap.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 100, SIZE = 1 << 16 };

static atomic_int started, cleaned;

static void clean(void *nothing)
{
    (void)nothing;
    cleaned++;
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
    int cancelled = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        void *result;
        if (pthread_create(&thread, NULL, map_forever, NULL) != 0)
            return 1;
        while (started == i)
            usleep(100);
        usleep(100);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    printf("cancelled %d cleaned %d\n", cancelled, cleaned);
    return 0;
}
