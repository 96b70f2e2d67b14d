/* src/mpi/pmpi/message.h: the layer's messages to the user. Needs no MPI. */
#ifndef ONESPACE_MPI_PMPI_MESSAGE_H
#define ONESPACE_MPI_PMPI_MESSAGE_H

/* Prints a message on standard error, after "onespace: rank N: ": what is wrong and how to fix it.
 * If standard error is a pipe, waits up to a second until the message has been read, because the
 * job may be aborted next. */
__attribute__((format(printf, 2, 3))) void layer_message(int rank, const char *format, ...);

#endif
