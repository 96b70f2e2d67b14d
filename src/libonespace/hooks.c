/* src/libonespace/hooks.c: the layers that take part in the life of a member. */
#include "insitu/ends.h"
#include "task/hooks.h"
#include "xpmem/calls.h"

/* In this order: a member's channels go before what it has made through XPMEM. */
const struct layer_hooks *const layer_hooks[] = {&insitu_hooks, &xpmem_hooks, NULL};
