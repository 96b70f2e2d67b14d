/* src/mpi/lifetime/finalize.h: MPI_Finalize frees the windows that the program has left. */
#ifndef ONESPACE_MPI_LIFETIME_FINALIZE_H
#define ONESPACE_MPI_LIFETIME_FINALIZE_H

/* To be called before the layer keeps anything; only the first call has an effect. */
void finalize_watch(void);

#endif
