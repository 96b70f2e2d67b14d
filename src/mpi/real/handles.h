/* src/mpi/real/handles.h: what the layer keeps for a handle of MPI's.
 *
 * A hash table with chaining. Entries are reused, never freed, so that lookup needs no lock: a
 * reader may be at any entry at any time. An entry cannot be reused while a caller uses its handle:
 * that would be a use after the handle was freed. */
#ifndef ONESPACE_MPI_REAL_HANDLES_H
#define ONESPACE_MPI_REAL_HANDLES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "mpi/real/real.h"

enum { HANDLES_BITS = 10 };

/* handle: written under the mutex, after `value` (release); read with acquire. 0: free. value:
 * relaxed; of a handle that is being freed it may be the next one's. */
struct handle_entry {
    _Atomic uintptr_t handle;
    void *_Atomic value;
    struct handle_entry *next; /* set before the entry is published by its bucket */
};

struct handles {
    struct handle_entry
        *_Atomic buckets[1 << HANDLES_BITS]; /* release by writers, acquire by readers */
    pthread_mutex_t mutex;                   /* writers; never across a call of MPI */
};
#define HANDLES_INIT                                                                               \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER                                                         \
    }

static inline struct handle_entry *handles_entry(struct handles *handles, uintptr_t handle)
{
    struct handle_entry *entry = atomic_load_explicit(
        &handles->buckets[real_hash(handle, HANDLES_BITS)], memory_order_acquire);
    while (entry && atomic_load_explicit(&entry->handle, memory_order_acquire) != handle)
        entry = entry->next;
    return entry;
}

/* NULL: nothing is kept for it. */
static inline void *handles_find(struct handles *handles, uintptr_t handle)
{
    struct handle_entry *entry = handles_entry(handles, handle);
    return entry && handle ? atomic_load_explicit(&entry->value, memory_order_relaxed) : NULL;
}

/* 0 or an error class. */
int handles_add(struct handles *handles, uintptr_t handle, void *value);
/* To be called before the handle is freed: MPI may reuse it at once. */
void handles_remove(struct handles *handles, uintptr_t handle);

#endif
