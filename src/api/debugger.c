/* src/api/debugger.c: append the chain of space/member.h to that of the root's ld.so. */
#include "api/debugger.h"

#include <gnu/libc-version.h>
#include <link.h>
#include <stdio.h>

#include "space/registry.h"

/* Before glibc 2.35 there is no r_next behind struct r_debug. */
static int ld_so_has_a_chain(void)
{
    unsigned major, minor;
    return sscanf(gnu_get_libc_version(), "%u.%u", &major, &minor) == 2 &&
           (major > 2 || minor >= 35);
}

/* Where debuggers start: the DT_DEBUG entry of the root's program. */
static struct space_namespace *first_namespace(const struct space *space)
{
    const struct link_map *program = (const struct link_map *)space->slots[0].link_map;
    if (!program || !ld_so_has_a_chain())
        return NULL;
    for (const ElfW(Dyn) *entry = program->l_ld; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_DEBUG)
            return (struct space_namespace *)entry->d_un.d_ptr;
    return NULL;
}

/* ld.so appends to its chain under a lock that is not accessible from here: if a thread of the root
 * calls dlmopen during onespace_init, the space's chain may be cut off and remain invisible. */
void debugger_chain_append(struct space *space)
{
    struct space_namespace *first = first_namespace(space), *last = first;
    space->debug_head.version = space->debug_tail.version = SPACE_NAMESPACES;
    atomic_store(&space->debug_head.next, (uintptr_t)&space->debug_tail);
    if (!first)
        return;
    for (uintptr_t next; (next = atomic_load(&last->next));)
        last = (struct space_namespace *)next;
    atomic_store_explicit(&last->next, (uintptr_t)&space->debug_head, memory_order_release);
    /* As in ld.so itself, the version of the first one says whether r_next exists. */
    if (first->version < SPACE_NAMESPACES)
        first->version = SPACE_NAMESPACES;
}

void debugger_chain_remove(struct space *space)
{
    for (struct space_namespace *at = first_namespace(space); at;) {
        uintptr_t next = atomic_load(&at->next);
        if (next == (uintptr_t)&space->debug_head)
            atomic_store(&at->next, atomic_load(&space->debug_tail.next));
        at = next == (uintptr_t)&space->debug_head ? NULL : (struct space_namespace *)next;
    }
}
