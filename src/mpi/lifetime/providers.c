/* src/mpi/lifetime/providers.c: see providers.h. */
#include "mpi/lifetime/providers.h"

#include "mpi/space/provider.h"
#include "mpi/storage/window.h"

const struct window_provider *const providers[] = {
    &provider_storage, /* for who asks for it, whatever the ranks are */
    &provider_space,   /* last: it takes every window of ranks that share an address space */
    NULL,
};
