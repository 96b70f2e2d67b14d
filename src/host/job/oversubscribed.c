/* src/host/job/oversubscribed.c: see oversubscribed.h. */
#include "host/job/oversubscribed.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/raw.h"
#include "space/registry.h"

static struct cpu_mask allowed; /* that some task may run on */
static int tasks, cpu_count;

static void publish(void)
{
    atomic_store_explicit(&space_registry()->oversubscribed, tasks > cpu_count,
                          memory_order_relaxed);
}

void oversubscribed_add(const void *cpus, size_t size)
{
    struct cpu_mask own = {0};
    if (size == 0)
        syscall(SYS_sched_getaffinity, 0, sizeof(own), &own);
    else
        memcpy(&own, cpus, size < sizeof(own) ? size : sizeof(own));
    cpu_mask_or(&allowed, &own);
    cpu_count = cpu_mask_count(&allowed);
    tasks++;
    publish();
}

void oversubscribed_remove(void)
{
    tasks--;
    publish();
}
