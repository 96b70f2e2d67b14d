/* src/host/job/oversubscribed.c: see oversubscribed.h. */
#include "host/job/oversubscribed.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "registry/space.h"

enum { CPUS = 8192 };

static uint64_t allowed[CPUS / 64]; /* one bit per CPU that some task may run on */
static int tasks, cpu_count;

static void publish(void)
{
    atomic_store_explicit(&space_registry()->oversubscribed, tasks > cpu_count,
                          memory_order_relaxed);
}

void oversubscribed_add(const void *cpus, size_t size)
{
    uint64_t own[CPUS / 64] = {0};
    if (size == 0)
        syscall(SYS_sched_getaffinity, 0, sizeof(own), own);
    else
        memcpy(own, cpus, size < sizeof(own) ? size : sizeof(own));
    cpu_count = 0;
    for (unsigned i = 0; i < CPUS / 64; i++) {
        allowed[i] |= own[i];
        cpu_count += __builtin_popcountll(allowed[i]);
    }
    tasks++;
    publish();
}

void oversubscribed_remove(void)
{
    tasks--;
    publish();
}
