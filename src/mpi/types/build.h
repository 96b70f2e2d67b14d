/* src/mpi/types/build.h: builds the layout of a type from its constructors. */
#ifndef ONESPACE_MPI_TYPES_BUILD_H
#define ONESPACE_MPI_TYPES_BUILD_H

#include "mpi/types/layout.h"

/* All return MPI_SUCCESS, or an error class, and nothing is left allocated. layout->loops is the
 * caller's to free; layout->size is not set. is_whole: elements include the gaps in them. */

/* Of a derived type. *element: see struct layouts. */
int build_layout(MPI_Datatype type, int is_whole, struct layout *layout,
                 const struct basic **element);
/* Of a predefined type, which types_basic need not know yet. */
int build_basic(const struct basic *basic, int is_whole, struct layout *layout);

#endif
