/* src/mpi/group/barrier.c: see barrier.h. */
#include "mpi/group/barrier.h"

#include "mpi/real/real.h"

uint32_t barrier_arrive(struct barrier *barrier, int ranks)
{
    /* Relaxed: the generation cannot end before this rank has arrived. */
    uint32_t generation = atomic_load_explicit(&barrier->generation, memory_order_relaxed);
    /* Acquire-release: the last rank sees the writes of all and publishes them with the generation.
     */
    if (atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) + 1 ==
        (uint32_t)ranks) {
        atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&barrier->generation, generation + 1, memory_order_release);
    }
    return generation;
}

int barrier_await(struct barrier *barrier, uint32_t ticket, struct wait *wait)
{
    int result = MPI_SUCCESS;
    while (result == MPI_SUCCESS &&
           atomic_load_explicit(&barrier->generation, memory_order_acquire) == ticket)
        result = wait_round(wait);
    if (result != MPI_SUCCESS)
        atomic_store_explicit(&barrier->is_broken, 1, memory_order_relaxed);
    else if (atomic_load_explicit(&barrier->is_broken, memory_order_relaxed))
        result = MPI_ERR_OTHER;
    return result;
}
