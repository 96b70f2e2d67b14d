/* src/mpi/lifetime/providers.c: see providers.h. */
#include "mpi/lifetime/providers.h"

#include "mpi/space/provider.h"
#include "mpi/storage/window.h"

const struct window_provider *const providers[] = {
    &provider_storage, /* for those who ask for it, wherever the ranks are */
    &provider_space,   /* last: it accepts every window of ranks that share an address space */
    NULL,
};
