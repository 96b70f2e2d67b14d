/* tests/interpose/guests/turns.c: maps, writes, checks and unmaps, ROUNDS times on each of THREADS
 * threads, and in the handler of a signal that interrupts them a millisecond after the last one.
 *
 * turns THREADS ROUNDS: prints "maps N wrong N", of the threads. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum { SIZE = 3 * 4096 };

static atomic_int maps, wrong;
static int rounds;

static int map_once(uint32_t value)
{
    uint32_t *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 0;
    int is_right = memory[0] == 0 && memory[SIZE / 4 - 1] == 0;
    memory[0] = memory[SIZE / 4 - 1] = value;
    is_right = is_right && mprotect(memory, SIZE, PROT_READ) == 0;
    is_right = is_right && memory[0] == value && memory[SIZE / 4 - 1] == value;
    return munmap(memory, SIZE) == 0 && is_right;
}

/* Once: a timer that repeats by itself would leave a slow machine no time for anything else. */
static void start_timer(void)
{
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 1000}}, NULL);
}

static void on_timer(int signal)
{
    (void)signal;
    if (!map_once((uint32_t)syscall(SYS_gettid)))
        wrong++;
    start_timer();
}

static void *work(void *unused)
{
    for (int i = 0; i < rounds; i++) {
        if (!map_once((uint32_t)syscall(SYS_gettid)))
            wrong++;
        maps++;
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[16];
    int count = argc > 1 ? atoi(argv[1]) : 1;
    rounds = argc > 2 ? atoi(argv[2]) : 1;
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_timer, .sa_flags = SA_RESTART}, NULL);
    start_timer();
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("maps %d wrong %d\n", maps, wrong);
    return 0;
}
