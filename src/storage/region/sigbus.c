/* src/storage/region/sigbus.c: turns SIGBUS in a region into an error of the next flush. */
#include "storage/region/region.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

enum { REGIONS_MAX = 4096 };

/* begin: 0: free; written under the mutex, after the others (release); read by the handler, on any
 * thread (acquire). An entry is removed before its mapping, which no thread may be using then. */
static struct entry {
    _Atomic uintptr_t begin;
    uintptr_t end;
    struct storage_region *region;
} entries[REGIONS_MAX];

static _Atomic unsigned used; /* entries below it may be in use; only grows (release, acquire) */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction previous; /* set once, before the handler can run */

/* The smallest region with this address: regions may be views into larger ones. */
static struct storage_region *find(uintptr_t address)
{
    struct storage_region *found = NULL;
    size_t smallest = SIZE_MAX;
    unsigned count = atomic_load_explicit(&used, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        uintptr_t begin = atomic_load_explicit(&entries[i].begin, memory_order_acquire);
        if (!begin || address < begin || address >= entries[i].end ||
            entries[i].end - begin >= smallest)
            continue;
        found = entries[i].region;
        smallest = entries[i].end - begin;
    }
    return found;
}

static void call_previous_handler(int number, siginfo_t *info, void *context)
{
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(number, info, context);
    else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
        previous.sa_handler(number);
    else
        signal(number, SIG_DFL); /* the instruction faults again */
}

static void handle(int number, siginfo_t *info, void *context)
{
    int saved = errno, none = 0;
    uintptr_t page = storage_page_size();
    uintptr_t address = (uintptr_t)info->si_addr & -page;
    struct storage_region *region = info->si_code > 0 ? find((uintptr_t)info->si_addr) : NULL;
    void *replacement = MAP_FAILED;
    if (region)
        replacement = mmap((void *)address, page, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (replacement == MAP_FAILED) {
        call_previous_handler(number, info, context);
    } else {
        /* Relaxed: see region.h. */
        atomic_compare_exchange_strong_explicit(region->failed, &none, EIO, memory_order_relaxed,
                                                memory_order_relaxed);
    }
    errno = saved;
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = handle,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, NULL, &previous);
    sigaction(SIGBUS, &action, NULL);
}

int sigbus_register(struct storage_region *region)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned i = 0;
    pthread_once(&once, install);
    pthread_mutex_lock(&mutex);
    while (i < REGIONS_MAX && atomic_load_explicit(&entries[i].begin, memory_order_relaxed))
        i++;
    if (i < REGIONS_MAX) {
        entries[i].region = region;
        entries[i].end = (uintptr_t)region->mapping + region->mapping_length;
        atomic_store_explicit(&entries[i].begin, (uintptr_t)region->mapping, memory_order_release);
        if (i >= atomic_load_explicit(&used, memory_order_relaxed))
            atomic_store_explicit(&used, i + 1, memory_order_release);
    }
    pthread_mutex_unlock(&mutex);
    return i < REGIONS_MAX ? 0 : -EAGAIN;
}

void sigbus_unregister(struct storage_region *region)
{
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < atomic_load_explicit(&used, memory_order_relaxed); i++)
        if (entries[i].region == region) {
            entries[i].region = NULL;
            atomic_store_explicit(&entries[i].begin, 0, memory_order_release);
        }
    pthread_mutex_unlock(&mutex);
}
