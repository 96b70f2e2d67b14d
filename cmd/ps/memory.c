/* cmd/ps/memory.c: memory by owner. The range of a slot tells the task, and the part of the range
 * tells the use (src/space/layout.h). Memory in no task's range is the root's, except what a
 * task mapped there because it asked for the address.
 *
 * One pass over the smaps of any process of the space: all have the same memory. Of what the kernel
 * offers, only smaps tells private pages everywhere; reading the page tables by pagemap takes three
 * quarters of the time and does not tell swapped shared memory. */
#include "cmd/ps/ps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "space/shared_mappings.h"
#include "space/registry.h"

struct owners {
    const struct ps_space *space;
    int of_slot[LAYOUT_SLOTS]; /* index in tasks, or -1 */
};

/* What smaps says of one mapping, bytes. */
struct mapping {
    uintptr_t start;
    char name[16];
    uint64_t resident, private, proportional, swapped;
};

static uint64_t *part_of_range(struct ps_memory *memory, uintptr_t start)
{
    uintptr_t offset = (start - LAYOUT_REGION) % LAYOUT_RANGE;
    return offset >= LAYOUT_STACK      ? &memory->stack
           : offset >= LAYOUT_BREAK    ? &memory->heap
           : offset >= LAYOUT_MAPPINGS ? &memory->mappings
                                       : &memory->files;
}

static uint64_t *part_of_root(struct ps_memory *memory, const struct mapping *mapping, int outside)
{
    return strcmp(mapping->name, "[heap]") == 0    ? &memory->heap
           : strcmp(mapping->name, "[stack]") == 0 ? &memory->stack
           : outside && mapping->name[0] == '/'    ? &memory->files
                                                   : &memory->mappings;
}

int ps_uses_shared(const struct ps_space *space, const struct ps_task *task, uintptr_t address)
{
    return space->shared &&
           (atomic_load_explicit(
                &space->shared[shared_window_index(address)].users[task->slot / 64],
                memory_order_relaxed) >>
                task->slot % 64 &
            1);
}

struct ps_task *ps_out_of_range_owner(const struct ps_space *space, uintptr_t address)
{
    for (unsigned i = 0; shared_windows_contain(address) && i < space->task_count; i++)
        if (ps_uses_shared(space, &space->tasks[i], address))
            return &space->tasks[i];
    for (unsigned i = 0; i < space->task_count; i++)
        for (unsigned f = 0; f < space->tasks[i].out_of_range_count; f++)
            if (interval_is_certain(space->tasks[i].out_of_range[f]) &&
                address >= interval_start(space->tasks[i].out_of_range[f]) &&
                address < interval_end(space->tasks[i].out_of_range[f]))
                return &space->tasks[i];
    return NULL;
}

static void count_mapping(const struct owners *owners, const struct mapping *mapping)
{
    unsigned slot = layout_slot_of(mapping->start);
    int is_range = slot > 0 && slot < LAYOUT_SLOTS;
    int index = owners->of_slot[is_range ? slot : 0];
    struct ps_task *owner = index >= 0 ? &owners->space->tasks[index] : NULL;
    struct ps_task *mapper = is_range ? NULL : ps_out_of_range_owner(owners->space, mapping->start);
    if (mapper)
        owner = mapper;
    if (!owner)
        return;
    struct ps_memory *memory = &owner->memory;
    *(is_range ? part_of_range(memory, mapping->start)
      : mapper ? &memory->mappings
               : part_of_root(memory, mapping, slot != 0)) += mapping->resident;
    memory->resident += mapping->resident;
    memory->private += mapping->private;
    memory->proportional += mapping->proportional;
    memory->swapped += mapping->swapped;
}

/* Huge pages of hugetlbfs are in none of the sums that the kernel makes. Returns whether the line
 * is one that every mapping has. */
static int add_field(struct mapping *mapping, const char *line)
{
    uint64_t bytes;
    char field[32];
    if (sscanf(line, "%31[^:]: %" SCNu64 " kB", field, &bytes) != 2)
        return 0;
    bytes *= 1024;
    int is_private = strncmp(field, "Private_", 8) == 0;
    if (strcmp(field, "Rss") == 0 || strstr(field, "_Hugetlb"))
        mapping->resident += bytes;
    if (strcmp(field, "Pss") == 0 || strcmp(field, "Private_Hugetlb") == 0)
        mapping->proportional += bytes;
    if (is_private)
        mapping->private += bytes;
    if (strcmp(field, "Swap") == 0)
        mapping->swapped += bytes;
    return strcmp(field, "Rss") == 0;
}

/* Whether anything was told. */
static int count_all(const struct owners *owners, FILE *smaps)
{
    struct mapping mapping = {0};
    char *line = NULL;
    size_t room = 0;
    uintptr_t start, end;
    int any = 0;
    while (getline(&line, &room, smaps) > 0) {
        any |= add_field(&mapping, line);
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) != 2)
            continue;
        count_mapping(owners, &mapping);
        mapping = (struct mapping){.start = start};
        sscanf(line, "%*s %*s %*s %*s %*s %15s", mapping.name);
    }
    count_mapping(owners, &mapping);
    free(line);
    return any;
}

void ps_memory(struct ps_space *space)
{
    struct owners owners = {.space = space};
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/smaps", space->source_pid);
    FILE *smaps = fopen(path, "re");
    if (!smaps)
        return;
    memset(owners.of_slot, 0xff, sizeof(owners.of_slot));
    for (unsigned i = 0; i < space->task_count; i++)
        owners.of_slot[space->tasks[i].slot] = (int)i;
    int any = count_all(&owners, smaps);
    fclose(smaps);
    for (unsigned i = 0; i < space->task_count; i++)
        space->tasks[i].memory.known = any;
}
