/* src/runtime/debugger.h: the root's end of the chain that debuggers follow (space/debugger.h). */
#ifndef ONESPACE_RUNTIME_DEBUGGER_H
#define ONESPACE_RUNTIME_DEBUGGER_H

#include "registry/space.h"

/* Hangs the chain behind what the root's ld.so has, found from the link map of the root's program;
 * takes it away. By the root. Does nothing where ld.so has no such chain: glibc before 2.35. */
void debugger_hang(struct space *space);
void debugger_take_away(struct space *space);

#endif
