/* src/interpose/prepare.c: set a new task's interposition up. */
#include "interpose/interpose.h"

#include <linux/mman.h>
#include <sys/mman.h>

#include "arch/keys.h"
#include "arch/trampoline.h"
#include "base/raw.h"
#include "interpose/guard/guard.h"
#include "interpose/patch/cpuid.h"
#include "interpose/signals.h"
#include "space/child.h"

void interpose_init_data(struct arch_trampoline_data *data, struct space_slot *slot)
{
    struct arch_handlers handlers = {.call = interpose_dispatch, .fault = interpose_fault};
    if (ARCH_HAS_KEYS && slot->guard_key) {
        handlers.call = guard_dispatch;
        handlers.fault = guard_signal;
    }
#if ARCH_HAS_CPUID
    handlers.cpuid = interpose_cpuid;
#endif
    arch_init_trampoline_data(data, slot, &handlers);
}

void interpose_init_slot(struct space *space, struct space_slot *slot)
{
    uintptr_t range = layout_range(slot_index(space, slot));
    struct space_interpose *interpose = &slot->interpose;
    atomic_store(&interpose->files_next, range + LAYOUT_FILES);
    atomic_store(&interpose->mappings_next, range + LAYOUT_MAPPINGS);
    atomic_store(&interpose->break_now, range + LAYOUT_BREAK);
    atomic_store(&interpose->break_mapped, range + LAYOUT_BREAK);
}

long interpose_map_trampolines(struct space *space, struct space_slot *slot)
{
    uintptr_t data = layout_range(slot_index(space, slot)) + LAYOUT_TRAMPOLINES;
    interpose_init_slot(space, slot);
    long result = raw(__NR_mmap, data, ARCH_PAGE * (2 + CHILD_PAGES), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (raw_failed(result))
        return result;
    /* Old size 0 duplicates a shared mapping: every task has the same physical page of trampolines.
     */
    result = raw(__NR_mremap, space->trampoline_page, 0, ARCH_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                 data + ARCH_PAGE);
    if (raw_failed(result))
        return result;
    interpose_init_data((struct arch_trampoline_data *)data, slot);
    slot->interpose.trampoline_data = data;
    slot->interpose.trampolines = data + ARCH_PAGE;
    slot->child_record = data + 2 * ARCH_PAGE;
    return 0;
}
