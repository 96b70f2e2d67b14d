/* src/interpose/patch/cpuid.c: answers a dynamic linker's cpuid instructions from a table.
 *
 * Each ld.so executes cpuid about 25 times. On a virtual machine each one traps to the hypervisor,
 * 2 to 70 us: more than half of the start of a small program. The results that ld.so uses are the
 * same on all CPUs that a process may run on, so the first task of a space executes the instruction
 * and the others read its result. Programs and other libraries are not patched. */
#include "interpose/patch/patch.h"

#include "arch/code/patch.h"

static void execute_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t answer[4])
{
    __asm__ volatile("cpuid"
                     : "=a"(answer[0]), "=b"(answer[1]), "=c"(answer[2]), "=d"(answer[3])
                     : "a"(leaf), "c"(subleaf));
}

/* An entry has one writer, who moves it from EMPTY to FILLING by compare-and-swap. READY, stored
 * with release, pairs with the readers' acquire. */
static void look_up(uint32_t leaf, uint32_t subleaf, uint32_t answer[4])
{
    struct space *space = space_registry();
    for (unsigned i = 0; i < SPACE_CPUIDS; i++) {
        struct space_cpuid *entry = &space->cpuids[i];
        uint32_t state = atomic_load_explicit(&entry->state, memory_order_acquire);
        if (state == FILE_READY && entry->leaf == leaf && entry->subleaf == subleaf) {
            for (unsigned w = 0; w < 4; w++)
                answer[w] = entry->answer[w];
            return;
        }
        if (state != FILE_EMPTY ||
            !atomic_compare_exchange_strong(&entry->state, &state, FILE_FILLING))
            continue;
        entry->leaf = leaf;
        entry->subleaf = subleaf;
        execute_cpuid(leaf, subleaf, entry->answer);
        for (unsigned w = 0; w < 4; w++)
            answer[w] = entry->answer[w];
        atomic_store_explicit(&entry->state, FILE_READY, memory_order_release);
        return;
    }
    counter_add(&space->overflows.cpuids, 1);
    execute_cpuid(leaf, subleaf, answer);
}

/* Others ignore ecx, which may hold anything. */
static int has_subleaves(uint32_t leaf)
{
    switch (leaf) {
    case 0x4:
    case 0x7:
    case 0xb:
    case 0xd:
    case 0xf:
    case 0x10:
    case 0x12:
    case 0x14:
    case 0x17:
    case 0x18:
    case 0x1b:
    case 0x1d:
    case 0x1e:
    case 0x1f:
    case 0x20:
    case 0x23:
    case 0x24:
    case 0x8000001d:
    case 0x80000020:
    case 0x80000026:
        return 1;
    default:
        return 0;
    }
}

void interpose_cpuid(const struct arch_cpuid *cpuid, uint64_t registers[16])
{
    uint32_t leaf =
        cpuid->leaf_register < 0 ? cpuid->leaf : (uint32_t)registers[cpuid->leaf_register];
    uint32_t subleaf, answer[4];
    if (cpuid->subleaf_register >= 0)
        subleaf = (uint32_t)registers[cpuid->subleaf_register];
    else if (cpuid->subleaf_register == ARCH_CPUID_ZERO || !has_subleaves(leaf))
        subleaf = 0;
    else
        subleaf = (uint32_t)registers[1];
    look_up(leaf, subleaf, answer);
    registers[0] = answer[0];
    registers[3] = answer[1];
    registers[1] = answer[2];
    registers[2] = answer[3];
}

void cpuid_search(const unsigned char *code, size_t size, struct patch_sites *list)
{
    uint32_t offsets[ARCH_CPUIDS_MAX];
    unsigned count = arch_find_cpuids(code, size, offsets, ARCH_CPUIDS_MAX);
    for (unsigned i = 0; i < count && list->count < SPACE_FILE_PATCH_SITES; i++)
        list->items[list->count++] =
            (struct space_patch_site){.at = offsets[i], .nr = SPACE_PATCH_SITE_CPUID};
}

void cpuid_patch(struct space_slot *self, uintptr_t address)
{
    struct arch_trampoline_data *data =
        (struct arch_trampoline_data *)self->interpose.trampoline_data;
    uint32_t *count = &self->interpose.cpuid_count;
    if (*count < ARCH_CPUIDS_MAX &&
        arch_patch_cpuid(address, &data->cpuids[*count],
                         arch_cpuid_trampoline(self->interpose.trampolines, *count)) == 0)
        ++*count;
}

void cpuid_relocate(struct arch_trampoline_data *data, unsigned count, uintptr_t moved)
{
    for (unsigned i = 0; i < count; i++)
        data->cpuids[i].resume += moved;
}
