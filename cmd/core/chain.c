/* cmd/core/chain.c: lets a debugger find the code of the space in the core of a task.
 *
 * A thread in a system call that onespace handles runs code of the root's library, which is in no
 * list of the task: a debugger knows no tables for going up from there, and its backtrace ends. The
 * core, and it alone, gets one more entry at the end of the task's list of libraries. The entry
 * lies where the space keeps nothing of the task's, and the last entry of the list is changed to
 * lead there. */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/constants.h"
#include "cmd/core/core.h"

enum { LIBRARIES_MAX = 65536 };

/* The last of the task's link maps: its address, or 0 when the list is being changed or damaged. */
static uintptr_t last_library(core_reader *read, const void *context, uintptr_t first)
{
    struct space_link_map map;
    uintptr_t previous = 0;
    for (unsigned i = 0; i < LIBRARIES_MAX && first; i++) {
        if (read(context, first, &map, sizeof(map)) != sizeof(map) ||
            (i > 0 && map.previous != previous))
            return 0;
        previous = first;
        first = map.next;
    }
    return first ? 0 : previous;
}

/* Where the code was loaded, and its dynamic section, by the headers in its first page. */
static int describe_code(core_reader *read, const void *context, uintptr_t base,
                         struct space_link_map *map)
{
    Elf64_Ehdr header;
    Elf64_Phdr program;
    int has_load = 0, has_dynamic = 0;
    if (read(context, base, &header, sizeof(header)) != sizeof(header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return -ENOEXEC;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        if (read(context, base + header.e_phoff + i * sizeof(program), &program, sizeof(program)) !=
            sizeof(program))
            return -ENOEXEC;
        if (program.p_type == PT_LOAD && !has_load++)
            map->bias = base - program.p_vaddr / ARCH_PAGE * ARCH_PAGE;
        if (program.p_type == PT_DYNAMIC && !has_dynamic++)
            map->dynamic = program.p_vaddr;
    }
    map->dynamic += map->bias;
    return has_load && has_dynamic ? 0 : -ENOEXEC;
}

uintptr_t core_make_entry(core_reader *read, const void *context, const struct space_slot *slot,
                          core_reader *read_code, const void *code_context, const struct code *code,
                          struct core_entry *entry)
{
    uintptr_t last = last_library(read, context, atomic_load(&slot->debug.libraries.maps));
    *entry = (struct core_entry){.name = ""};
    if (!last || !code->path[0] ||
        describe_code(read_code, code_context, code->base, &entry->map) != 0)
        return 0;
    entry->map.name = (const char *)(CORE_ENTRY_AT + offsetof(struct core_entry, name));
    entry->map.previous = last;
    snprintf(entry->name, sizeof(entry->name), "%s", code->path);
    return last + offsetof(struct space_link_map, next);
}

/* ---- Of a task that runs ---- */

static size_t read_memory(const void *context, uint64_t at, void *to, size_t size)
{
    const struct core_memory *memory = context;
    ssize_t done = pread(memory->memory, to, size, (off_t)at);
    return done > 0 ? (size_t)done : 0;
}

static int is_free(const struct map *map, uintptr_t start, uintptr_t end)
{
    for (size_t i = 0; i < map->count; i++)
        if (map->regions[i].start < end && map->regions[i].end > start)
            return 0;
    return 1;
}

/* Whether the core has the contents of that address. */
static int is_written(const struct core_memory *memory, uintptr_t at, size_t size)
{
    for (size_t i = 0; i < memory->count; i++) {
        const struct core_segment *segment = &memory->segments[i];
        if (at >= segment->start && at + size <= segment->start + segment->bytes)
            return 1;
    }
    return 0;
}

/* The segments ascend. */
static int insert(struct core_memory *memory, const struct core_segment *segment)
{
    struct core_segment *more =
        realloc(memory->segments, (memory->count + 1) * sizeof(*memory->segments));
    if (!more)
        return -ENOMEM;
    size_t at = memory->count;
    for (; at > 0 && more[at - 1].start > segment->start; at--)
        more[at] = more[at - 1];
    more[at] = *segment;
    memory->segments = more;
    memory->room = ++memory->count;
    return 0;
}

int core_add_code(const struct space_slot *slot, struct core_memory *memory)
{
    static const struct map_region region = {
        .start = CORE_ENTRY_AT, .end = CORE_ENTRY_AT + LAYOUT_MIB, .permissions = "r--p"};
    const size_t size = (sizeof(struct core_entry) + ARCH_PAGE - 1) / ARCH_PAGE * ARCH_PAGE;
    struct core_segment segment = {&region, CORE_ENTRY_AT, CORE_ENTRY_AT + size, size, 0, NULL};
    struct core_entry *entry = calloc(1, size);
    if (!entry)
        return -ENOMEM;
    uintptr_t next_at =
        core_make_entry(read_memory, memory, slot, read_memory, memory, &memory->code, entry);
    int result = next_at && is_written(memory, next_at, sizeof(uintptr_t)) &&
                         is_free(&memory->map, CORE_ENTRY_AT, CORE_ENTRY_AT + size)
                     ? 0
                     : -ENOENT;
    segment.content = entry;
    if (result == 0)
        result = insert(memory, &segment);
    if (result != 0) {
        free(entry);
        return result;
    }
    memory->added = entry;
    memory->change_at = next_at;
    memory->change = CORE_ENTRY_AT;
    return 0;
}
