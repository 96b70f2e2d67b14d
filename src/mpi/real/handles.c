/* src/mpi/real/handles.c: see handles.h. */
#include "mpi/real/handles.h"

#include <stdlib.h>

int handles_add(struct handles *handles, uintptr_t handle, void *value)
{
    struct handle_entry *_Atomic *bucket = &handles->buckets[real_hash(handle, HANDLES_BITS)];
    pthread_mutex_lock(&handles->mutex);
    struct handle_entry *entry = atomic_load_explicit(bucket, memory_order_relaxed);
    while (entry && atomic_load_explicit(&entry->handle, memory_order_relaxed))
        entry = entry->next;
    int is_new = !entry;
    if (is_new && (entry = calloc(1, sizeof(*entry))))
        entry->next = atomic_load_explicit(bucket, memory_order_relaxed);
    if (entry) {
        atomic_store_explicit(&entry->value, value, memory_order_relaxed);
        atomic_store_explicit(&entry->handle, handle, memory_order_release);
        if (is_new)
            atomic_store_explicit(bucket, entry, memory_order_release);
    }
    pthread_mutex_unlock(&handles->mutex);
    return entry ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

void handles_remove(struct handles *handles, uintptr_t handle)
{
    pthread_mutex_lock(&handles->mutex);
    struct handle_entry *entry = handles_entry(handles, handle);
    if (entry)
        atomic_store_explicit(&entry->handle, 0, memory_order_release);
    pthread_mutex_unlock(&handles->mutex);
}
