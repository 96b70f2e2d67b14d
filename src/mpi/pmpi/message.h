/* src/mpi/pmpi/message.h: the layer's messages to the user. Needs no MPI. */
#ifndef ONESPACE_MPI_PMPI_MESSAGE_H
#define ONESPACE_MPI_PMPI_MESSAGE_H

/* Says what is wrong and how to fix it, on standard error, after "onespace: rank N: ". Where that
 * is a pipe it returns when all was read, after a second at most: the job may be aborted next.
 */
__attribute__((format(printf, 2, 3))) void layer_message(int rank, const char *format, ...);

#endif
