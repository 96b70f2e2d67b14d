/* tests/interpose/guests/polls.c: waits in loops, as MPI libraries do. Built with glibc and with
 * musl. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "programs/choose.h"

enum { ROUNDS = 100 };

static int empty, ready;

static void open_both(void)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = 7}};
    empty = epoll_create1(0);
    ready = epoll_create1(0);
    epoll_ctl(ready, EPOLL_CTL_ADD, eventfd(1, 0), &event);
}

/* Each of the calls in question so often; the task stays until its input ends. */
static int play_count(int argc, char **argv)
{
    struct epoll_event event;
    int found = 0, wrong = 0;
    (void)argc, (void)argv;
    open_both();
    for (int i = 0; i < ROUNDS; i++) {
        wrong += epoll_wait(empty, &event, 1, 0) != 0;
        found += epoll_wait(ready, &event, 1, 0) == 1 && event.data.u32 == 7;
    }
    wrong += epoll_wait(empty, &event, 1, 1) != 0;
    wrong += sched_yield() != 0;
    errno = 0;
    wrong += epoll_wait(-1, &event, 1, 0) != -1 || errno != EBADF;
    printf("found %d wrong %d\n", found, wrong);
    while (getchar() != EOF)
        ;
    return 0;
}

static void *poll_for_ever(void *unused)
{
    struct epoll_event event;
    for (;;)
        epoll_wait(empty, &event, 1, 0);
    return unused;
}

static int play_cancel(int argc, char **argv)
{
    pthread_t thread;
    void *result = NULL;
    (void)argc, (void)argv;
    open_both();
    if (pthread_create(&thread, NULL, poll_for_ever, NULL) != 0)
        return 1;
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("cancelled %d\n", result == PTHREAD_CANCELED);
    return 0;
}

int main(int argc, char **argv)
{
    const struct scene scenes[] = {{"count", play_count}, {"cancel", play_cancel}};
    return CHOOSE(scenes, argc, argv);
}
