/* src/host/job/time_slices.c: see time_slices.h. */
#include "host/job/time_slices.h"

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

#include "host/identity/scheduling.h"
#include "registry/space.h"

enum {
    SLICE_NS = 62500,     /* for each task of a CPU, */
    SHORTEST_NS = 250000, /* but no less */
    LONGEST_NS = 1000000, /* and no more */
    REST_NS = 20000000,   /* between two checks while no thread waits for a CPU */
    SLICES_PER_CHECK = 64,
    TASK_SLICE_NS = 125000, /* less than SHORTEST_NS, so that the scheduler may preempt the task */
    OWN_SLICE_NS = 100000,  /* the least that the kernel accepts: the thread is scheduled soon */
    STACK = 64 * 1024,
    CPUS = 8192
};

/* One bit per CPU that some task may run on, and whether it has a thread. */
static uint64_t allowed[CPUS / 64], served[CPUS / 64];
/* Written by the thread that calls time_slices_add and time_slices_remove, read by the others as a
 * hint: they order nothing. */
static atomic_int tasks, cpu_count;

/* How long the thread is to run at a time (Linux 6.12; before, the kernel ignores it). */
static void set_slice(int32_t thread, uint64_t ns)
{
    struct scheduling scheduling;
    if (scheduling_get(thread, &scheduling) != 0 ||
        (scheduling.policy != SCHED_OTHER && scheduling.policy != SCHED_BATCH))
        return;
    scheduling.runtime = ns;
    scheduling_set(thread, &scheduling);
}

/* New tasks inherit the reaper's slice; those that run already get it now. */
static void set_task_slices(void)
{
    struct space *space = space_registry();
    uint32_t highest = atomic_load(&space->highest);
    set_slice(atomic_load(&space->reaper_pid), TASK_SLICE_NS);
    for (uint32_t i = 1; i <= highest; i++) {
        int32_t pid = atomic_load(&space->pids[i]);
        if (pid > 0)
            set_slice(pid, TASK_SLICE_NS);
    }
}

/* Runnable threads of the machine, this one included; INT32_MAX where the kernel does not tell. */
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

/* Checks for oversubscription, and tells the tasks of it. */
static int is_oversubscribed(void)
{
    int room = atomic_load_explicit(&cpu_count, memory_order_relaxed);
    int result =
        atomic_load_explicit(&tasks, memory_order_relaxed) > room && count_running() - 1 > room;
    atomic_store_explicit(&space_registry()->oversubscribed, (uint32_t)result,
                          memory_order_relaxed);
    return result;
}

/* Whether tasks yielded since the caller's last check as often as they would have been preempted:
 * wake-ups would only cost time then. */
static int tasks_yield(uint32_t *seen)
{
    struct space *space = space_registry();
    uint32_t highest = atomic_load(&space->highest), sum = 0, before = *seen;
    for (uint32_t i = 1; i <= highest; i++)
        sum += atomic_load_explicit(&space->slots[i].stats.yields, memory_order_relaxed);
    *seen = sum;
    return sum - before >=
           SLICES_PER_CHECK * (uint32_t)atomic_load_explicit(&cpu_count, memory_order_relaxed);
}

static void sleep_ns(long ns)
{
    struct timespec time = {0, ns};
    nanosleep(&time, NULL);
}

/* With few tasks slices are short: a message between two of them waits for a slice of each task in
 * the queue. Many tasks need longer ones, or they spend their time on context switches. */
static long slice_ns(void)
{
    long room = atomic_load_explicit(&cpu_count, memory_order_relaxed);
    long wanted =
        SLICE_NS * (long)atomic_load_explicit(&tasks, memory_order_relaxed) / (room + !room);
    return wanted < SHORTEST_NS ? SHORTEST_NS : wanted > LONGEST_NS ? LONGEST_NS : wanted;
}

static void *wake_regularly(void *cpu)
{
    cpu_set_t cpus[CPUS / CPU_SETSIZE];
    memset(cpus, 0, sizeof(cpus));
    CPU_SET_S((size_t)(uintptr_t)cpu, sizeof(cpus), cpus);
    if (pthread_setaffinity_np(pthread_self(), sizeof(cpus), cpus) != 0)
        return NULL; /* the CPU may have gone offline, or the affinity have changed */
    prctl(PR_SET_NAME, "onespace-slices");
    prctl(PR_SET_TIMERSLACK, 1000);
    set_slice(0, OWN_SLICE_NS);
    uint32_t yields = 0;
    for (;;) {
        if (!is_oversubscribed() || tasks_yield(&yields))
            sleep_ns(REST_NS);
        else
            for (int i = 0; i < SLICES_PER_CHECK; i++)
                sleep_ns(slice_ns());
    }
}

static void start_thread(unsigned cpu)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* Without the thread everything works, with the kernel's longer slices. */
    (void)!pthread_create(&thread, &attributes, wake_regularly, (void *)(uintptr_t)cpu);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

static void allow(const void *cpus, size_t size)
{
    uint64_t own[CPUS / 64] = {0};
    if (size == 0)
        syscall(SYS_sched_getaffinity, 0, sizeof(own), own);
    else
        memcpy(own, cpus, size < sizeof(own) ? size : sizeof(own));
    int count = 0;
    for (unsigned i = 0; i < CPUS / 64; i++) {
        allowed[i] |= own[i];
        count += __builtin_popcountll(allowed[i]);
    }
    atomic_store_explicit(&cpu_count, count, memory_order_relaxed);
}

void time_slices_add(const void *cpus, size_t size)
{
    allow(cpus, size);
    if (atomic_fetch_add_explicit(&tasks, 1, memory_order_relaxed) + 1 <=
        atomic_load_explicit(&cpu_count, memory_order_relaxed))
        return;
    int is_more = 0;
    for (unsigned i = 0; i < CPUS / 64; i++)
        for (uint64_t missing; (missing = allowed[i] & ~served[i]);) {
            unsigned bit = (unsigned)__builtin_ctzll(missing);
            served[i] |= UINT64_C(1) << bit;
            start_thread(i * 64 + bit);
            is_more = 1;
        }
    if (is_more)
        set_task_slices();
}

void time_slices_remove(void)
{
    atomic_fetch_sub_explicit(&tasks, 1, memory_order_relaxed);
}
