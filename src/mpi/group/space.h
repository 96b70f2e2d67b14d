/* src/mpi/group/space.h: this process and its space. */
#ifndef ONESPACE_MPI_GROUP_SPACE_H
#define ONESPACE_MPI_GROUP_SPACE_H

/* Whether this process is a task of a space (or its root). */
int space_has_self(void);

/* Whether --mpi-layer off was given: creating windows is left to the MPI library. */
int space_layer_is_off(void);

#endif
