/* src/mpi/rma/update.h: who may update elements of a part: one rank at a time for each line. */
#ifndef ONESPACE_MPI_RMA_UPDATE_H
#define ONESPACE_MPI_RMA_UPDATE_H

#include "mpi/rma/direct.h"

#define DIRECT_ALL_LINES ((1u << DIRECT_STRIPES) - 1)

/* A bit for each stripe that has bytes of the row; all bits when there are many of these. */
uint32_t direct_lines(const char *address, size_t size);
/* Waits for those who have any of the lines; an error, with none taken, when a rank has died. */
int direct_take(struct window *window, int rank, uint32_t lines);
void direct_give(struct window *window, int rank, uint32_t lines);

#endif
