/* cmd/ps/memory.c: resident memory by owner. The range of a slot tells the task, and the part of
 * the range tells the use (src/space/layout.h). Memory in no task's range is the root's, except
 * what a task mapped there because it asked for the address.
 *
 * One pass over the smaps of any process of the space: all have the same memory. */
#include "cmd/ps/ps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct owners {
    const struct ps_space *space;
    int of_slot[LAYOUT_SLOTS]; /* index in tasks, or -1 */
};

static void count_in_range(struct ps_memory *memory, uintptr_t start, uint64_t bytes)
{
    uintptr_t offset = (start - LAYOUT_REGION) % LAYOUT_RANGE;
    *(offset >= LAYOUT_STACK      ? &memory->stack
      : offset >= LAYOUT_BREAK    ? &memory->heap
      : offset >= LAYOUT_MAPPINGS ? &memory->mappings
                                  : &memory->files) += bytes;
}

struct ps_task *ps_out_of_range_owner(const struct ps_space *space, uintptr_t address)
{
    for (unsigned i = 0; i < space->task_count; i++)
        for (unsigned f = 0; f < SPACE_OUT_OF_RANGE_MAX; f++)
            if (address >= space->tasks[i].out_of_range[f].start &&
                address < space->tasks[i].out_of_range[f].end)
                return &space->tasks[i];
    return NULL;
}

static void count_mapping(const struct owners *owners, uintptr_t start, const char *name,
                          uint64_t bytes)
{
    unsigned slot = layout_slot_of(start);
    if (slot > 0 && slot < LAYOUT_SLOTS) {
        int owner = owners->of_slot[slot];
        if (owner >= 0)
            count_in_range(&owners->space->tasks[owner].memory, start, bytes);
        return;
    }
    struct ps_task *mapper = ps_out_of_range_owner(owners->space, start);
    if (mapper)
        mapper->memory.mappings += bytes;
    else if (owners->of_slot[0] >= 0) {
        struct ps_memory *root = &owners->space->tasks[owners->of_slot[0]].memory;
        *(strcmp(name, "[heap]") == 0    ? &root->heap
          : strcmp(name, "[stack]") == 0 ? &root->stack
          : slot != 0 && name[0] == '/'  ? &root->files
                                         : &root->mappings) += bytes;
    }
}

void ps_memory(struct ps_space *space)
{
    struct owners owners = {.space = space};
    char path[64], name[16] = "", *line = NULL;
    size_t room = 0;
    uint64_t start = 0, from, to, kilobytes;
    snprintf(path, sizeof(path), "/proc/%d/smaps", space->source_pid);
    FILE *smaps = fopen(path, "re");
    if (!smaps)
        return;
    memset(owners.of_slot, 0xff, sizeof(owners.of_slot));
    for (unsigned i = 0; i < space->task_count; i++)
        owners.of_slot[space->tasks[i].slot] = (int)i;
    int any = 0;
    while (getline(&line, &room, smaps) > 0) {
        if (sscanf(line, "Rss: %" SCNu64 " kB", &kilobytes) == 1) {
            count_mapping(&owners, start, name, kilobytes * 1024);
            any = 1;
        } else if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2) {
            start = from;
            name[0] = 0;
            sscanf(line, "%*s %*s %*s %*s %*s %15s", name);
        }
    }
    free(line);
    fclose(smaps);
    for (unsigned i = 0; any && i < space->task_count; i++) {
        struct ps_memory *memory = &space->tasks[i].memory;
        memory->known = 1;
        memory->resident = memory->files + memory->mappings + memory->heap + memory->stack;
    }
}
