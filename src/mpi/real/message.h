/* src/mpi/real/message.h: what the layer tells the user. */
#ifndef ONESPACE_MPI_REAL_MESSAGE_H
#define ONESPACE_MPI_REAL_MESSAGE_H

/* Says what is wrong and how to fix it, on standard error, after "onespace: rank N: ". Where that
 * is a pipe it returns when all was read, after a second at most: the job may be aborted next.
 */
__attribute__((format(printf, 2, 3))) void layer_message(int rank, const char *format, ...);

#endif
