/* tests/interpose/guests/detached.c: detached threads, which in musl unmap their own stacks at
 * their end.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 50 };

static void *stop(void *nothing)
{
    return nothing;
}

int main(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, stop, NULL) != 0)
            return 1;
        usleep(1000);
    }
    printf("%d came and went\n", THREADS);
    return 0;
}
