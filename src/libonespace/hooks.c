/* src/libonespace/hooks.c: the layers that take part in the life of a member. */
#include "insitu/ends.h"
#include "task/hooks.h"
#include "xpmem/calls.h"

/* In this order: a member's channels end before its XPMEM segments. */
const struct layer_hooks *const layer_hooks[] = {&insitu_hooks, &xpmem_hooks, NULL};
