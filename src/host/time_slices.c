/* src/host/time_slices.c: see time_slices.h. */
#include "host/time_slices.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "space/registry.h"

enum {
    TURN_NS = 62500,      /* for each task of a processor, */
    SHORTEST_NS = 250000, /* but no less */
    LONGEST_NS = 1000000, /* and no more */
    REST_NS = 20000000,   /* between two looks while nobody waits */
    TURNS_PER_LOOK = 64,
    TASK_SLICE_NS = 125000, /* less than a turn, so that the scheduler may end it */
    OWN_SLICE_NS = 100000,  /* the least that the kernel takes: woken soon */
    STACK = 64 * 1024,
    PROCESSORS = 8192
};

/* One bit per processor that some task may run on, and whether it has a thread. */
static uint64_t allowed[PROCESSORS / 64], served[PROCESSORS / 64];
/* Written by the thread that calls turns_add and turns_remove, read by the others as a hint. */
static atomic_int tasks, processors;

/* struct sched_attr, as of Linux 3.14. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

/* How long the thread is to run at a time (Linux 6.12; before, the kernel ignores it). */
static void set_slice(int32_t thread, uint64_t slice_ns)
{
    struct attributes attributes = {.size = sizeof(attributes)};
    if (syscall(SYS_sched_getattr, thread, &attributes, sizeof(attributes), 0) != 0 ||
        (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH))
        return;
    attributes.runtime = slice_ns;
    syscall(SYS_sched_setattr, thread, &attributes, 0);
}

/* Tasks inherit the keeper's slice; those that are there already get it now. */
static void set_task_slices(void)
{
    struct space *space = space_registry();
    uint32_t highest = atomic_load(&space->highest);
    set_slice(atomic_load(&space->keeper_pid), TASK_SLICE_NS);
    for (uint32_t i = 1; i <= highest; i++) {
        int32_t pid = atomic_load(&space->pids[i]);
        if (pid > 0)
            set_slice(pid, TASK_SLICE_NS);
    }
}

/* How many threads of the machine want to run, this one included; a large number where the kernel
 * does not say. */
static int count_running(void)
{
    int running = INT32_MAX;
    FILE *file = fopen("/proc/loadavg", "re");
    if (!file)
        return running;
    if (fscanf(file, "%*f %*f %*f %d/", &running) != 1)
        running = INT32_MAX;
    fclose(file);
    return running;
}

/* Looks whether there is a crowd, and lets the tasks know. */
static int is_crowded(void)
{
    int room = atomic_load_explicit(&processors, memory_order_relaxed);
    int result =
        atomic_load_explicit(&tasks, memory_order_relaxed) > room && count_running() - 1 > room;
    atomic_store_explicit(&space_registry()->crowded, (uint32_t)result, memory_order_relaxed);
    return result;
}

/* Whether tasks gave their processors up by themselves since the caller's last look, as often as
 * turns would have been made: those only cost time then. */
static int give_way(uint32_t *seen)
{
    struct space *space = space_registry();
    uint32_t highest = atomic_load(&space->highest), sum = 0, before = *seen;
    for (uint32_t i = 1; i <= highest; i++)
        sum += atomic_load_explicit(&space->slots[i].stats.yields, memory_order_relaxed);
    *seen = sum;
    return sum - before >=
           TURNS_PER_LOOK * (uint32_t)atomic_load_explicit(&processors, memory_order_relaxed);
}

static void sleep_ns(long ns)
{
    struct timespec time = {0, ns};
    nanosleep(&time, NULL);
}

/* Few tasks change quickly: a message between two of them waits for a turn of each in line. Many
 * need longer ones, or they spend their time on the changes. */
static long turn_ns(void)
{
    long room = atomic_load_explicit(&processors, memory_order_relaxed);
    long wanted =
        TURN_NS * (long)atomic_load_explicit(&tasks, memory_order_relaxed) / (room + !room);
    return wanted < SHORTEST_NS ? SHORTEST_NS : wanted > LONGEST_NS ? LONGEST_NS : wanted;
}

static void *make_turns(void *processor)
{
    cpu_set_t cpus[PROCESSORS / CPU_SETSIZE];
    memset(cpus, 0, sizeof(cpus));
    CPU_SET_S((size_t)(uintptr_t)processor, sizeof(cpus), cpus);
    if (pthread_setaffinity_np(pthread_self(), sizeof(cpus), cpus) != 0)
        return NULL; /* it may have been taken away */
    prctl(PR_SET_NAME, "onespace-turns");
    prctl(PR_SET_TIMERSLACK, 1000);
    set_slice(0, OWN_SLICE_NS);
    uint32_t yields = 0;
    for (;;) {
        if (!is_crowded() || give_way(&yields))
            sleep_ns(REST_NS);
        else
            for (int i = 0; i < TURNS_PER_LOOK; i++)
                sleep_ns(turn_ns());
    }
}

static void serve(unsigned processor)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* Without it everything works as before, with longer turns. */
    (void)!pthread_create(&thread, &attributes, make_turns, (void *)(uintptr_t)processor);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

static void allow(const void *cpus, size_t size)
{
    uint64_t own[PROCESSORS / 64] = {0};
    if (size == 0) {
        long got = syscall(SYS_sched_getaffinity, 0, sizeof(own), own);
        size = got > 0 ? (size_t)got : 0;
    } else {
        size = size < sizeof(own) ? size : sizeof(own);
        memcpy(own, cpus, size);
    }
    int count = 0;
    for (unsigned i = 0; i < PROCESSORS / 64; i++) {
        allowed[i] |= own[i];
        count += __builtin_popcountll(allowed[i]);
    }
    atomic_store_explicit(&processors, count, memory_order_relaxed);
}

void turns_add(const void *cpus, size_t size)
{
    allow(cpus, size);
    if (atomic_fetch_add_explicit(&tasks, 1, memory_order_relaxed) + 1 <=
        atomic_load_explicit(&processors, memory_order_relaxed))
        return;
    int is_more = 0;
    for (unsigned i = 0; i < PROCESSORS / 64; i++)
        for (uint64_t missing; (missing = allowed[i] & ~served[i]);) {
            unsigned bit = (unsigned)__builtin_ctzll(missing);
            served[i] |= UINT64_C(1) << bit;
            serve(i * 64 + bit);
            is_more = 1;
        }
    if (is_more)
        set_task_slices();
}

void turns_remove(void)
{
    atomic_fetch_sub_explicit(&tasks, 1, memory_order_relaxed);
}
