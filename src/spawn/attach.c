/* src/spawn/attach.c: see attach.h. Freestanding: runs in the root's library, on tasks' threads.
 */
#include "spawn/attach.h"

#include <link.h>

#include "base/futex.h"
#include "elf/elf.h"
#include "interpose/interpose.h"
#include "onespace.h"
#include "space/member.h"

static uintptr_t dynamic_of(const struct link_map *program)
{
    const ElfW(Dyn) *dynamic = program->l_ld;
    return dynamic[0].d_tag == DT_NEEDED && dynamic[1].d_tag == ELF_FILE_DYNAMIC
               ? dynamic[1].d_un.d_ptr
               : (uintptr_t)dynamic;
}

void task_loaded(struct space_slot *self, uintptr_t link_map)
{
    const struct link_map *program = (const struct link_map *)link_map;
    membership_mark_attach(self);
    if (program) { /* musl's link map of the program has a name, glibc's has none */
        const char *path = *program->l_name ? NULL : interpose_program(self);
        debugger_link(space_registry(), self, path, program->l_addr, dynamic_of(program), link_map);
    }
    atomic_store_explicit(&self->loaded, 1, memory_order_release);
    futex_wake(&self->loaded, INT32_MAX);
    if ((self->flags & ONESPACE_SPAWN_TOGETHER) && self->ntasks > 1)
        group_wait_loaded(space_registry(), self);
}
