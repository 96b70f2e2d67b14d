/* src/interpose/guard/begin.c: the keys of a space, and what a task starts with. */
#include "interpose/guard/guard.h"

#include <errno.h>
#include <sys/mman.h>

#include "arch/keys.h"
#include "arch/trampoline.h"
#include "base/kernel.h"
#include "base/page.h"
#include "base/raw.h"
#include "interpose/guard/record.h"
#include "interpose/memory/area.h"
#include "space/child.h"

/* Linux 6.12 and later write a signal's frame with the right to all memory. Before, a signal that
 * comes while another one's handler has not yet got the right to its stack ends the process. */
static int delivers_two_signals(void)
{
    return kernel_version() >= KERNEL_VERSION(6, 12);
}

uintptr_t guard_trampoline(uintptr_t trampolines)
{
    return arch_guard_trampoline(trampolines);
}

long guard_alloc_keys(struct space *space)
{
    struct space_guard *guard = &space->guard;
    uint32_t count = 0;
    if (atomic_load_explicit(&guard->count, memory_order_acquire))
        return 0;
    if (!arch_cpu_has_keys())
        return -ENOTSUP;
    if (!arch_kernel_has_keys())
        return -ENOSYS;
    guard->no_access = guard->no_write = 0;
    for (; count < SPACE_GUARD_KEYS; count++) {
        long key = raw(__NR_pkey_alloc, 0, 0); /* and all rights to it, for this thread */
        if (key < 0)
            break;
        guard->keys[count] = (uint8_t)key;
        guard->no_access |= ARCH_NO_ACCESS(key);
        guard->no_write |= ARCH_NO_WRITE(key);
    }
    if (count == 0)
        return -ENOSPC;
    guard->saved_at = arch_saved_rights_at();
    guard->blocks_signals = !delivers_two_signals();
    /* Release: whoever sees the count sees the rest. */
    atomic_store_explicit(&guard->count, count, memory_order_release);
    return 0;
}

long guard_init_slot(struct space *space, struct space_slot *slot)
{
    const struct space_guard *guard = &space->guard;
    unsigned index = slot_index(space, slot);
    slot->guard_key = guard->keys[(index - 1) % atomic_load(&guard->count)];
    slot->guard_rights = (ARCH_RIGHTS_INITIAL & ~guard->no_access) |
                         (guard->no_write & ~ARCH_NO_WRITE(slot->guard_key));
    long result = raw(__NR_mmap, layout_range(index) + LAYOUT_GUARD,
                      page_ceiling(sizeof(struct guard_record)), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    return raw_failed(result) ? result : 0;
}

void guard_set_key(const struct space_slot *slot, uintptr_t start, size_t size, int prot)
{
    raw(__NR_pkey_mprotect, start, page_ceiling(size), prot, slot->guard_key);
}

void guard_set_record_keys(const struct space_slot *slot)
{
    enum { BOTH = PROT_READ | PROT_WRITE };
    uintptr_t range = layout_range(slot_index(space_registry(), slot));
    guard_set_key(slot, slot->interpose.trampoline_data, ARCH_PAGE, BOTH);
    guard_set_key(slot, slot->child_record, CHILD_PAGES * ARCH_PAGE, BOTH);
    guard_set_key(slot, range + LAYOUT_GUARD, sizeof(struct guard_record), BOTH);
    guard_set_key(slot, range + LAYOUT_AREA_MAP, area_map_size(), BOTH);
}

void guard_apply_rights(const struct space_slot *self)
{
    const struct space_guard *guard = &space_registry()->guard;
    if (self->guard_key)
        arch_set_rights(self->guard_rights);
    else
        guard_open(guard); /* of the member that spawned it, which may be guarded */
}
