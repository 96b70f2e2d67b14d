/* src/mpi/lifetime/providers.c: the table of providers. */
#include "mpi/window/provider.h"

const struct window_provider *const providers[] = {
    &provider_storage, /* for who asks for it, whatever the ranks are */
    &provider_space,   /* last: it takes every window of ranks that share an address space */
    NULL,
};
