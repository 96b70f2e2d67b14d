/* src/mpi/window/table.c: from handle to window, and the list of all.
 *
 * A hash table with chains. Places in chains are never freed but used again, so that looking up
 * needs no lock: a reader may stand on any place at any time. Writers hold the mutex, which is
 * never held across a call of MPI. */
#include <pthread.h>
#include <stdlib.h>

#include "mpi/window/window.h"

enum { BUCKETS = 1024 };

/* handle: written under the mutex; release, after window. Readers: acquire. 0: the place is free.
 * It cannot become another window's while a caller uses the handle: that would be a use of a window
 * after MPI_Win_free. */
struct place {
    _Atomic uintptr_t handle;
    struct window *window;
    struct place *next; /* set before the place is published by its bucket */
};

static struct place *_Atomic buckets[BUCKETS]; /* release by writers, acquire by readers */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct window *first, **last = &first;

static uintptr_t key_of(MPI_Win handle)
{
    return (uintptr_t)handle;
}

static struct place *_Atomic *bucket_of(uintptr_t key)
{
    return &buckets[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
}

static struct place *find_place(uintptr_t key)
{
    struct place *place = atomic_load_explicit(bucket_of(key), memory_order_acquire);
    while (place && atomic_load_explicit(&place->handle, memory_order_acquire) != key)
        place = place->next;
    return place;
}

struct window *window_find(MPI_Win handle)
{
    struct place *place = find_place(key_of(handle));
    return place && key_of(handle) ? place->window : NULL;
}

int window_add(struct window *window)
{
    uintptr_t key = key_of(window->handle);
    struct place *_Atomic *bucket = bucket_of(key);
    pthread_mutex_lock(&mutex);
    struct place *place = atomic_load_explicit(bucket, memory_order_relaxed);
    while (place && atomic_load_explicit(&place->handle, memory_order_relaxed))
        place = place->next;
    int is_new = !place;
    if (is_new && (place = calloc(1, sizeof(*place))))
        place->next = atomic_load_explicit(bucket, memory_order_relaxed);
    if (place) {
        place->window = window;
        atomic_store_explicit(&place->handle, key, memory_order_release);
        if (is_new)
            atomic_store_explicit(bucket, place, memory_order_release);
        window->next = NULL;
        *last = window;
        last = &window->next;
    }
    pthread_mutex_unlock(&mutex);
    return place ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

void window_remove(struct window *window)
{
    pthread_mutex_lock(&mutex);
    struct place *place = find_place(key_of(window->handle));
    if (place)
        atomic_store_explicit(&place->handle, 0, memory_order_release);
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
