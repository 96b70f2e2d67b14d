/* src/api/debugger.h: the root's end of the chain that debuggers follow (space/member.h). */
#ifndef ONESPACE_RUNTIME_DEBUGGER_H
#define ONESPACE_RUNTIME_DEBUGGER_H

#include "space/registry.h"

/* Appends the chain to that of the root's ld.so, which is found from the link map of the root's
 * program; removes it. Called by the root. Do nothing if ld.so has no such chain: glibc
 * before 2.35.
 */
void debugger_chain_append(struct space *space);
void debugger_chain_remove(struct space *space);

#endif
