/* cmd/core/segments.c: which memory of a task goes into its core.
 *
 * The mappings that are the task's: its range, and what it mapped elsewhere. And the vDSO, which
 * all have. Of these the contents that /proc/PID/coredump_filter asks for, as in the kernel's
 * cores: by default what is in no file, and the first page of ELF files. What is in a file
 * debuggers read from there.
 *
 * Private pages that were never touched are zero, and holes in the core. Of shared memory only what
 * this place has touched is known without allocating pages, so the rest is not in the core at all:
 * a debugger says so, where zeroes would be a lie. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/constants.h"
#include "cmd/core/core.h"
#include "onespace.h"

enum {
    PRIVATE_ANONYMOUS = 1,
    SHARED_ANONYMOUS = 2,
    PRIVATE_FILES = 4,
    SHARED_FILES = 8,
    ELF_HEADERS = 16,
    PRIVATE_HUGE = 32,
    SHARED_HUGE = 64,
    FILTER_DEFAULT = 0x33,
    /* Shorter gaps in shared memory are written, too: each piece costs a program header. */
    GAP_PAGES = 16,
};

static unsigned read_filter(int pid)
{
    char path[64];
    unsigned filter = FILTER_DEFAULT;
    snprintf(path, sizeof(path), "/proc/%d/coredump_filter", pid);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%x", &filter) != 1)
        filter = FILTER_DEFAULT;
    if (file)
        fclose(file);
    return filter;
}

size_t core_present(const struct core_memory *memory, uintptr_t start, uintptr_t end,
                    unsigned char present[CORE_PAGES])
{
    static uint64_t entries[CORE_PAGES];
    size_t pages = (end - start) / ARCH_PAGE;
    pages = pages < CORE_PAGES ? pages : CORE_PAGES;
    ssize_t done = memory->page_map < 0 ? -1
                                        : pread(memory->page_map, entries, pages * sizeof(*entries),
                                                (off_t)(start / ARCH_PAGE * sizeof(*entries)));
    for (size_t i = 0; i < pages; i++) /* bits 63 and 62: in memory, swapped out */
        present[i] = done < 0 || (i < (size_t)done / sizeof(*entries) && entries[i] >> 62 != 0);
    return pages;
}

static int append(struct core_memory *memory, const struct core_segment *segment)
{
    if (memory->count == memory->room) {
        size_t room = memory->room ? 2 * memory->room : 64;
        struct core_segment *more = realloc(memory->segments, room * sizeof(*more));
        if (!more)
            return -ENOMEM;
        memory->segments = more;
        memory->room = room;
    }
    memory->segments[memory->count++] = *segment;
    return 0;
}

static int has_text(const struct map_region *region, const char *text)
{
    return region->name && strstr(region->name, text) != NULL;
}

/* Mapped from a file that has no name any more, as a task's ld.so is: no debugger finds it. */
static int is_nameless(const struct map_region *region)
{
    return !region->name || has_text(region, " (deleted)");
}

static int starts_with_elf(const struct core_memory *memory, const struct map_region *region)
{
    char magic[4];
    return region->offset == 0 && pread(memory->memory, magic, 4, (off_t)region->start) == 4 &&
           memcmp(magic, "\177ELF", 4) == 0;
}

/* How much of the mapping's beginning is written. */
static uint64_t bytes_of(const struct core_memory *memory, const struct map_region *region,
                         unsigned filter)
{
    uint64_t size = region->end - region->start;
    int is_shared = region->permissions[3] == 's', is_anonymous = is_nameless(region);
    if (region->name && strcmp(region->name, "[vdso]") == 0)
        return size;
    if (region->is_device || region->not_dumped)
        return 0;
    if (region->is_hugetlb)
        return filter & (is_shared ? SHARED_HUGE : PRIVATE_HUGE) ? size : 0;
    if (is_shared)
        return filter & (is_anonymous ? SHARED_ANONYMOUS : SHARED_FILES) ? size : 0;
    if (region->anonymous > 0 && (filter & PRIVATE_ANONYMOUS))
        return size;
    if (!region->name) /* nothing was touched */
        return 0;
    if ((is_anonymous && has_text(region, "/memfd:")) || (filter & PRIVATE_FILES))
        return size;
    return filter & ELF_HEADERS && starts_with_elf(memory, region) ? ARCH_PAGE : 0;
}

/* Where the run of pages ends that begins at `at`: of present ones, with short gaps, or of absent
 * ones. */
static uintptr_t end_of_run(const struct core_memory *memory, uintptr_t at, uintptr_t end,
                            int *is_present)
{
    static unsigned char present[CORE_PAGES];
    uintptr_t last = at; /* behind the last page that is like the first */
    for (uintptr_t page = at; page < end;) {
        size_t pages = core_present(memory, page, end, present);
        if (page == at)
            *is_present = present[0];
        for (size_t i = 0; i < pages; i++, page += ARCH_PAGE) {
            if (present[i] == *is_present)
                last = page + ARCH_PAGE;
            else if (!*is_present || page - last >= GAP_PAGES * ARCH_PAGE)
                return last;
        }
    }
    return *is_present ? last : end;
}

static int add_shared(struct core_memory *memory, const struct map_region *region)
{
    int result = 0, is_present = 0;
    for (uintptr_t at = region->start; result == 0 && at < region->end;) {
        uintptr_t end = end_of_run(memory, at, region->end, &is_present);
        struct core_segment segment = {region, at, end, is_present ? end - at : 0, 0, NULL};
        result = append(memory, &segment);
        at = end;
    }
    return result;
}

static int add_region(struct core_memory *memory, const struct map_region *region, unsigned filter)
{
    uint64_t bytes = bytes_of(memory, region, filter);
    if (region->permissions[3] == 's' && bytes)
        return add_shared(memory, region);
    struct core_segment segment = {region, region->start, region->end, bytes, !region->name, NULL};
    return append(memory, &segment);
}

static int open_file(int pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A thread may be in a system call that this code handles. */
static int is_code(const struct core_memory *memory, const struct map_region *region)
{
    return region->name && memory->code.path[0] && region->permissions[1] != 'w' &&
           region->owner == MAP_ROOT && strcmp(region->name, memory->code.path) == 0;
}

static int is_its_own(const struct ps_space *space, const struct core_memory *memory,
                      const struct map_region *region, const struct ps_task *task)
{
    if (shared_windows_contain(region->start))
        return ps_uses_shared(space, task, region->start);
    if (region->name && strcmp(region->name, "[vdso]") == 0)
        return 1;
    if (is_code(memory, region))
        return 1;
    if (region->owner == MAP_NOBODY) /* the root's, or a task's without interposition */
        return task->id == 0 || (task->flags & ONESPACE_SPAWN_NO_INTERPOSE);
    return task->id == 0 ? region->owner == MAP_ROOT
                         : region->owner == MAP_TASK && region->slot == task->slot;
}

int core_choose(const struct ps_space *space, const struct ps_task *task,
                struct core_memory *memory)
{
    unsigned filter = read_filter(task->pid);
    *memory = (struct core_memory){.memory = -1, .page_map = -1};
    if (code_find(space, &memory->code) != 0)
        memory->code.path[0] = 0;
    int result = map_read(space, &memory->map);
    if (result != 0)
        return result;
    map_set_owners(&memory->map);
    memory->memory = open_file(task->pid, "mem");
    if (memory->memory < 0)
        result = -errno;
    memory->page_map = open_file(task->pid, "pagemap");
    for (size_t i = 0; result == 0 && i < memory->map.count; i++)
        if (is_its_own(space, memory, &memory->map.regions[i], task))
            result = add_region(memory, &memory->map.regions[i], filter);
    if (result != 0)
        core_forget(memory);
    return result;
}

void core_forget(struct core_memory *memory)
{
    if (memory->memory >= 0)
        close(memory->memory);
    if (memory->page_map >= 0)
        close(memory->page_map);
    free(memory->segments);
    free(memory->added);
    map_free(&memory->map);
    *memory = (struct core_memory){.memory = -1, .page_map = -1};
}
