/* src/mpi/window/table.c: finds the window of a handle, and lists all windows.
 *
 * A hash table with chaining. Entries are reused, never freed, so that lookup needs no lock: a
 * reader may be at any entry at any time. Writers hold the mutex, never across a call of MPI. */
#include <pthread.h>
#include <stdlib.h>

#include "mpi/window/window.h"

enum { BUCKETS_BITS = 10 };

/* handle: written under the mutex, after `window` (release); read with acquire. 0: free. An entry
 * cannot be reused while a caller uses its handle: that would be a use after MPI_Win_free. */
struct entry {
    _Atomic uintptr_t handle;
    struct window *window;
    struct entry *next; /* set before the entry is published by its bucket */
};

static struct entry
    *_Atomic buckets[1 << BUCKETS_BITS]; /* release by writers, acquire by readers */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct window *first, **last = &first;

static uintptr_t key_of(MPI_Win handle)
{
    return (uintptr_t)handle;
}

static struct entry *_Atomic *bucket_of(uintptr_t key)
{
    return &buckets[real_hash(key, BUCKETS_BITS)];
}

static struct entry *find_entry(uintptr_t key)
{
    struct entry *entry = atomic_load_explicit(bucket_of(key), memory_order_acquire);
    while (entry && atomic_load_explicit(&entry->handle, memory_order_acquire) != key)
        entry = entry->next;
    return entry;
}

struct window *window_find(MPI_Win handle)
{
    struct entry *entry = find_entry(key_of(handle));
    return entry && key_of(handle) ? entry->window : NULL;
}

int window_add(struct window *window)
{
    uintptr_t key = key_of(window->handle);
    struct entry *_Atomic *bucket = bucket_of(key);
    pthread_mutex_lock(&mutex);
    struct entry *entry = atomic_load_explicit(bucket, memory_order_relaxed);
    while (entry && atomic_load_explicit(&entry->handle, memory_order_relaxed))
        entry = entry->next;
    int is_new = !entry;
    if (is_new && (entry = calloc(1, sizeof(*entry))))
        entry->next = atomic_load_explicit(bucket, memory_order_relaxed);
    if (entry) {
        entry->window = window;
        atomic_store_explicit(&entry->handle, key, memory_order_release);
        if (is_new)
            atomic_store_explicit(bucket, entry, memory_order_release);
        window->next = NULL;
        *last = window;
        last = &window->next;
    }
    pthread_mutex_unlock(&mutex);
    return entry ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

void window_remove(struct window *window)
{
    pthread_mutex_lock(&mutex);
    struct entry *entry = find_entry(key_of(window->handle));
    if (entry)
        atomic_store_explicit(&entry->handle, 0, memory_order_release);
    struct window **at = &first;
    while (*at && *at != window)
        at = &(*at)->next;
    if (*at) {
        *at = window->next;
        if (last == &window->next)
            last = at;
    }
    pthread_mutex_unlock(&mutex);
}

/* Only MPI_Finalize walks the list, when no other thread may call MPI. */
int windows_each(int (*function)(struct window *window))
{
    int outcome = MPI_SUCCESS;
    for (struct window *window = first, *next; window; window = next) {
        next = window->next;
        int result = function(window);
        if (outcome == MPI_SUCCESS)
            outcome = result;
    }
    return outcome;
}
