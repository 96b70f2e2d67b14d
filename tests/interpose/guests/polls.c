/* tests/interpose/guests/polls.c: waits in loops, as MPI libraries do. Built with glibc and with
 * musl. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "programs/scene.h"

enum { ROUNDS = 100 };

static int empty, ready;

static void open_both(void)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = 7}};
    empty = epoll_create1(0);
    ready = epoll_create1(0);
    epoll_ctl(ready, EPOLL_CTL_ADD, eventfd(1, 0), &event);
}

static volatile sig_atomic_t yields;

static void count_yield(int signal)
{
    (void)signal;
    yields++;
}

/* The kernel sends SIGSYS in place of each sched_yield. musl's compiler does not find the kernel's
 * headers for filters. */
static int trap_yields(void)
{
    enum { LOAD = 0x20, IF_EQUAL = 0x15, RETURN = 0x06, ALLOW = 0x7fff0000, TRAP = 0x00030000 };
    const struct {
        uint16_t code;
        uint8_t if_true, if_false;
        uint32_t value;
    } lines[] = {{LOAD, 0, 0, 0}, /* the call's number */
                 {IF_EQUAL, 0, 1, SYS_sched_yield},
                 {RETURN, 0, 0, TRAP},
                 {RETURN, 0, 0, ALLOW}};
    const struct {
        uint16_t count;
        const void *lines;
    } filter = {sizeof(lines) / sizeof(lines[0]), lines};
    return signal(SIGSYS, count_yield) == SIG_ERR || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
           prctl(PR_SET_SECCOMP, 2 /* SECCOMP_MODE_FILTER */, &filter) != 0;
}

/* Each of the calls in question so often. */
SCENE(count)
{
    struct epoll_event event;
    int found = 0, wrong = 0;
    open_both();
    if (trap_yields() != 0)
        return 1;
    for (int i = 0; i < ROUNDS; i++) {
        wrong += epoll_wait(empty, &event, 1, 0) != 0;
        found += epoll_wait(ready, &event, 1, 0) == 1 && event.data.u32 == 7;
    }
    wrong += epoll_wait(empty, &event, 1, 1) != 0;
    errno = 0;
    wrong += epoll_wait(-1, &event, 1, 0) != -1 || errno != EBADF;
    printf("found %d wrong %d yields %d\n", found, wrong, (int)yields);
    return 0;
}

static void *poll_for_ever(void *unused)
{
    struct epoll_event event;
    for (;;)
        epoll_wait(empty, &event, 1, 0);
    return unused;
}

SCENE(cancel)
{
    pthread_t thread;
    void *result = NULL;
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
    return play_scene(argc, argv);
}
