/* src/mpi/rma/device.h: origins of transfers in a GPU's memory, which the CPU cannot read.
 *
 * A program that has loaded CUDA's library may give such addresses to MPI. The layer asks that
 * library, has it copy the origin's data to memory of the host, and there does as always. Memory of
 * windows is the layer's, and never a GPU's. */
#ifndef ONESPACE_MPI_RMA_DEVICE_H
#define ONESPACE_MPI_RMA_DEVICE_H

#include "mpi/types/types.h"

/* The word that says that the program has opened CUDA's library: a task's own
 * (space/interposition.h), else one that device_look has set. Written once; relaxed, like the word.
 */
extern const _Atomic uint32_t *_Atomic device_word;
/* Finds the word. To be called when a window is created. Outside of a space, where no loading of
 * libraries is seen, this looks whether the library is loaded. */
void device_look(void);

static inline int device_is_possible(void)
{
    const _Atomic uint32_t *word = atomic_load_explicit(&device_word, memory_order_relaxed);
    return word && atomic_load_explicit(word, memory_order_relaxed);
}

/* A transfer's data on the host. Zeroes are one that is not on a device. */
struct device_copy {
    char *host; /* the copy, NULL: the data is not on a device */
    uintptr_t device;
    size_t size;
};

/* If the transfer's data is on a device, copies it and has the transfer name the copy. MPI_SUCCESS,
 * or an error class after a message. */
int device_fetch(struct transfer *transfer, struct device_copy *copy);
/* Copies the data back, if it is_changed, and frees the copy. MPI_SUCCESS or as above. */
int device_return(struct device_copy *copy, int is_changed);

#endif
