/* src/space/debugger.c: see debugger.h. Freestanding: runs on tasks' threads and in the reaper. */
#include "space/member.h"

static uintptr_t address_of(struct space_namespace *entry)
{
    return (uintptr_t)entry;
}

/* Links all slots up to this one, in order. Every step is an idempotent compare-and-swap, so it may
 * be made by several callers at once, and what one that is killed leaves half done the next one
 * completes. */
static void link_up_to(struct space *space, uint32_t index)
{
    uintptr_t tail = address_of(&space->debug_tail), none, last;
    uint32_t linked = atomic_load_explicit(&space->debug_linked, memory_order_acquire);
    _Atomic uintptr_t *end =
        linked ? &space->slots[linked].debug.libraries.next : &space->debug_head.next;
    for (uint32_t i = linked + 1; i <= index; i++) {
        struct space_debug *debug = &space->slots[i].debug;
        debug->program.version = debug->libraries.version = SPACE_NAMESPACES;
        atomic_store_explicit(&debug->program.next, address_of(&debug->libraries),
                              memory_order_relaxed);
        none = 0;
        atomic_compare_exchange_strong(&debug->libraries.next, &none, tail);
        last = tail;
        atomic_compare_exchange_strong(end, &last, address_of(&debug->program));
        end = &debug->libraries.next;
    }
    while (linked < index &&
           !atomic_compare_exchange_weak_explicit(&space->debug_linked, &linked, index,
                                                  memory_order_release, memory_order_acquire))
        ;
}

void debugger_link(struct space *space, struct space_slot *slot, const char *path, uintptr_t bias,
                   uintptr_t dynamic, uintptr_t first_link_map)
{
    struct space_debug *debug = &slot->debug;
    link_up_to(space, slot_index(space, slot));
    debug->map = (struct space_link_map){.bias = bias, .name = path, .dynamic = dynamic};
    /* Release: a debugger that sees the entry sees what it leads to. */
    if (path)
        atomic_store_explicit(&debug->program.maps, (uintptr_t)&debug->map, memory_order_release);
    atomic_store_explicit(&debug->libraries.maps, first_link_map, memory_order_release);
}

void debugger_unlink(struct space_slot *slot)
{
    atomic_store_explicit(&slot->debug.libraries.maps, 0, memory_order_release);
    atomic_store_explicit(&slot->debug.program.maps, 0, memory_order_release);
}
