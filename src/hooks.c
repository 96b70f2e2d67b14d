/* src/hooks.c: the layers that have hooks in the life of a member (space/member.h). */
#include "remote_call/remote_call.h"
#include "insitu/insitu.h"
#include "space/member.h"
#include "xpmem/entries.h"

/* The order matters: callers leave a member before anything that it had is undone, and its channels
 * end before its XPMEM segments. */
const struct member_hooks *const hooks_of_layers[] = {&call_hooks, &insitu_hooks, &xpmem_hooks,
                                                      NULL};
