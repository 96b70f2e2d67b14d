/* cmd/ps/code.c: see code.h. */
#include "cmd/ps/code.h"

#include <inttypes.h>
#include <stdio.h>

int code_find(const struct ps_space *space, struct code *code)
{
    uintptr_t inside, start, end, offset, base = 0;
    char line[PATH_MAX + 128], path[PATH_MAX], rights[8];
    const uintptr_t operations = LAYOUT_REGISTRY + offsetof(struct space, operations);
    snprintf(path, sizeof(path), "/proc/%d/maps", space->root_pid);
    if (ps_copy(space->source_pid, operations + offsetof(struct space_operations, interpose),
                &inside, sizeof(inside)) != 0)
        return -1;
    FILE *maps = fopen(path, "re");
    code->low = 0;
    while (maps && !code->low && fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %" SCNxPTR " %*s %*s %4095[^\n]", &start,
                   &end, rights, &offset, code->path) != 5)
            continue;
        if (offset == 0)
            base = start;
        if (inside >= start && inside < end)
            code->base = base, code->low = start, code->high = end;
    }
    if (maps)
        fclose(maps);
    return code->low ? 0 : -1;
}
