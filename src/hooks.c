/* src/hooks.c: the layers that take part in the life of a member. */
#include "call/table.h"
#include "insitu/ends.h"
#include "space/member.h"
#include "xpmem/calls.h"

/* In this order: callers leave a member before anything that it had ends, and its channels end
 * before its XPMEM segments. */
const struct member_hooks *const member_hooks[] = {&call_hooks, &insitu_hooks, &xpmem_hooks, NULL};
