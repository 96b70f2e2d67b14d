/* src/mpi/lifetime/finalize.h: windows that the program left are freed when it finalises MPI. */
#ifndef ONESPACE_MPI_LIFETIME_FINALIZE_H
#define ONESPACE_MPI_LIFETIME_FINALIZE_H

/* Before the layer keeps anything; the first call counts. */
void finalize_watch(void);

#endif
