/* src/mpi/rma/update.h: exclusion of updates of elements: one rank at a time for each cache line.
 */
#ifndef ONESPACE_MPI_RMA_UPDATE_H
#define ONESPACE_MPI_RMA_UPDATE_H

#include "mpi/rma/direct.h"

#define DIRECT_ALL_LINES ((1u << DIRECT_STRIPES) - 1)

/* One bit for each stripe that the bytes touch; all bits when they touch many. */
uint32_t direct_lines(const char *address, size_t size);
/* `lines` and those of more bytes. */
uint32_t direct_add_lines(uint32_t lines, const char *address, size_t size);
/* Waits for owners of any of the lines. An error when a rank has died: no line is owned then. */
int direct_acquire(struct window *window, int rank, uint32_t lines);
void direct_release(struct window *window, int rank, uint32_t lines);

#endif
