/* src/space/debugger.h: what lets a stock debugger find the programs and libraries of all tasks.
 *
 * A debugger that attaches to any member sees the root's program, since that is what the kernel
 * knows, and follows its DT_DEBUG entry to the struct r_debug of the root's ld.so. Since glibc 2.35
 * that one leads to further ones, made for the namespaces of dlmopen, through r_next; gdb follows
 * them from version 13 on. Behind the last of them the root hangs the chain of the space:
 *
 *   root's r_debug(s) -> head -> slot 1: program -> libraries -> slot 2: ... -> tail -> (later)
 *
 * All entries lie in the registry, and none is unlinked before the space ends: the root's ld.so
 * follows the chain, too, when dlmopen makes another namespace, which it appends to the tail. A
 * slot without a task has empty link maps, as ld.so leaves them for a namespace that is no longer
 * used. Tasks' own r_debug structures are not part of the chain: their memory is unmapped when they
 * end.
 *
 * Two entries per task, because debuggers skip link maps without a name, and that is what a main
 * program's has: one leads to a link map of ours for the program, the other to those of its ld.so.
 */
#ifndef ONESPACE_SPACE_DEBUGGER_H
#define ONESPACE_SPACE_DEBUGGER_H

#include "registry/space.h"

/* Shows the caller, a task in `slot`, to debuggers: the program `path` (NULL: the link maps name
 * it) loaded at `bias`, its dynamic section, and the first of its ld.so's link maps or 0. All must
 * stay valid until debugger_hide. Called once, by the task itself. Freestanding. */
void debugger_show(struct space *space, struct space_slot *slot, const char *path, uintptr_t bias,
                   uintptr_t dynamic, uintptr_t first_link_map);
/* Undoes that. Called by the reaper when the task has ended. Freestanding. */
void debugger_hide(struct space_slot *slot);

#endif
