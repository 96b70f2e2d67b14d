/* src/mpi/storage/written.h: which pages of the parts of a window with versions were stored into,
 * by any process of the node. */
#ifndef ONESPACE_MPI_STORAGE_WRITTEN_H
#define ONESPACE_MPI_STORAGE_WRITTEN_H

#include "mpi/storage/window.h"

/* Bytes of the maps of all parts; `sizes` by rank. */
size_t storage_written_size(const uint64_t *sizes, int ranks);
/* The maps: memory that the processes of the node share, of zeroes. 0 or -ENOMEM. */
int storage_written_place(struct storage_window *storage, const uint64_t *sizes, void *maps);

/* Begins to notice stores, of a window whose ranks do not use it yet. */
void storage_written_begin(struct window *window);
/* Before this process first stores into another rank's part, or gives its address to the program.
 * Any thread. */
void storage_written_await(struct window *window, int rank);

/* In a commit, while no rank stores: tells the other ranks of the node what this process has stored
 * into. */
void storage_written_tell(struct window *window);
/* After all ranks have told: replaces *ranges by what was stored into the storage part of this rank
 * since the last time, counted from the part's first byte. 0; 1: not known, so that the only range
 * is all of it; or -ENOMEM. */
int storage_written_take(struct window *window, struct storage_ranges *ranges);

#endif
