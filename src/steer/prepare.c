/* src/steer/prepare.c: set a new task's steering up. */
#include "steer/steer.h"

#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include "task/birth.h"

void steer_begin(struct space *space, struct space_slot *slot)
{
    uintptr_t range = layout_range(space_slot_index(space, slot));
    struct space_steer *steer = &slot->steer;
    atomic_store(&steer->files_next, range + LAYOUT_FILES);
    atomic_store(&steer->mappings_next, range + LAYOUT_MAPPINGS);
    atomic_store(&steer->break_now, range + LAYOUT_BREAK);
    atomic_store(&steer->break_mapped, range + LAYOUT_BREAK);
}

long steer_prepare(struct space *space, struct space_slot *slot)
{
    uintptr_t data = layout_range(space_slot_index(space, slot)) + LAYOUT_STUBS;
    steer_begin(space, slot);
    long result = raw(__NR_mmap, data, ARCH_PAGE * (2 + BIRTH_PAGES), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if ((unsigned long)result >= -4095ul)
        return result;
    /* Old size 0 duplicates a shared mapping: the same physical page of stubs in every task. */
    result = raw(__NR_mremap, space->stub_page, 0, ARCH_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                 data + ARCH_PAGE);
    if ((unsigned long)result >= -4095ul)
        return result;
    arch_init_stub_data((struct arch_stub_data *)data, slot);
    slot->steer.stub_data = data;
    slot->steer.stubs = data + ARCH_PAGE;
    slot->birth_record = data + 2 * ARCH_PAGE;
    return 0;
}
