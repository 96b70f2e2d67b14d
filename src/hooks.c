/* src/hooks.c: the layers that have hooks in the life of a member (space/member.h). */
#include "remote_call/remote_call.h"
#include "insitu/insitu.h"
#include "space/member.h"
#include "xpmem/entries.h"

/* The order matters. When a member has ended, calls into it are aborted first, then its channels
 * end, then its XPMEM segments and permits are deleted. */
const struct member_hooks *const hooks_of_layers[] = {&call_hooks, &insitu_hooks, &xpmem_hooks,
                                                      NULL};
