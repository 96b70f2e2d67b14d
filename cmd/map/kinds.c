/* cmd/map/kinds.c: the kind of each mapping of a space.
 *
 * The kind follows from the part of a task's range (src/space/layout.h), from the mapping's name
 * and, for mappings without a name, from the mapping below. The kernel helps to find a thread's
 * stack: the thread's libc has registered an address in it. */
#include "cmd/map/map.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/proc.h"

static int starts_with(const char *text, const char *prefix)
{
    return text && strncmp(text, prefix, strlen(prefix)) == 0;
}

static int same_owner(const struct map_region *a, const struct map_region *b)
{
    return a->owner == b->owner && a->slot == b->slot;
}

/* ---- Kinds ---- */

static int is_onespace(const struct map *map, const struct map_region *region)
{
    const struct ps_space *space = map->space;
    const char *base = region->name ? strrchr(region->name, '/') : NULL;
    return region->owner == MAP_REGISTRY || starts_with(base, "/libonespace") ||
           (space->trampoline_page && region->start == space->trampoline_page) ||
           (region->start < space->fence_high && region->end > space->fence_low);
}

/* A task's ld.so is mapped from a file in memory (src/spawn/internal.h). */
static int is_shared_memory(const struct map_region *region)
{
    if (starts_with(region->name, "/memfd:onespace-loader"))
        return 0;
    return starts_with(region->name, "/SYSV") || starts_with(region->name, "/memfd:") ||
           starts_with(region->name, "/dev/shm/") || starts_with(region->name, "/dev/zero") ||
           starts_with(region->name, "/anon_hugepage") || starts_with(region->name, "[anon_shmem:");
}

/* A file of which the owner has mapped code is a library; others are data. */
static int has_code(const struct map *map, size_t at)
{
    const struct map_region *region = &map->regions[at];
    for (int step = -1; step <= 1; step += 2)
        for (size_t i = at; i < map->count; i += (size_t)step) {
            const struct map_region *other = &map->regions[i];
            if (!other->name || strcmp(other->name, region->name) != 0 ||
                !same_owner(other, region))
                break;
            if (other->permissions[2] == 'x')
                return 1;
        }
    return 0;
}

static int is_program(const struct map_region *region)
{
    const char *program = region->task ? region->task->program : "";
    size_t length = strlen(region->name), known = strlen(program);
    /* The registry keeps only the end of a long path. */
    return known && (strcmp(region->name, program) == 0 ||
                     (known == SPACE_PROGRAM_MAX - 1 && length > known &&
                      strcmp(region->name + length - known, program) == 0));
}

static enum map_kind kind_of_name(const struct map *map, size_t at)
{
    const struct map_region *region = &map->regions[at];
    if (is_shared_memory(region))
        return MAP_SHARED;
    if (region->name[0] == '/')
        return is_program(region) ? MAP_PROGRAM : has_code(map, at) ? MAP_LIBRARY : MAP_FILE;
    if (strcmp(region->name, "[heap]") == 0)
        return MAP_HEAP;
    if (starts_with(region->name, "[stack"))
        return MAP_STACK;
    if (starts_with(region->name, "[v"))
        return MAP_LIBRARY; /* vdso, vvar, vsyscall: the kernel's */
    return starts_with(region->name, "[anon:") ? MAP_ANONYMOUS : MAP_UNKNOWN;
}

/* glibc's malloc gives threads heaps of their own: 64 MiB at a multiple of that, the first part
 * accessible, the rest not. */
static int is_arena(const struct map *map, size_t at)
{
    const uintptr_t size = 64 * LAYOUT_MIB;
    const struct map_region *region = &map->regions[at];
    if (at + 1 < map->count && region->start % size == 0 && region->permissions[1] == 'w') {
        const struct map_region *rest = region + 1;
        return rest->start == region->end && strcmp(rest->permissions, "---p") == 0 &&
               rest->end == region->start + size;
    }
    return at > 0 && strcmp(region->permissions, "---p") == 0 && region->end % size == 0 &&
           region[-1].kind == MAP_HEAP && region[-1].end == region->start;
}

/* Without a name: by its part of the range, or data of the file mapped below it. That is the file's
 * bss, or, where a task's ld.so puts libraries, all of its data (src/interpose/ldso.c). */
static enum map_kind kind_of_place(const struct map *map, size_t at)
{
    const struct map_region *region = &map->regions[at], *below = at ? region - 1 : region;
    uintptr_t offset = region->owner == MAP_TASK && layout_slot_of(region->start) != LAYOUT_SLOTS
                           ? (region->start - LAYOUT_REGION) % LAYOUT_RANGE
                           : LAYOUT_MAPPINGS;
    int follows = below->end == region->start && same_owner(below, region);
    if (offset < LAYOUT_FILES)
        return MAP_OWN;
    if (offset >= LAYOUT_STACK)
        return MAP_STACK;
    if (offset >= LAYOUT_BREAK)
        return MAP_HEAP;
    if (follows && region->permissions[1] == 'w' &&
        (below->permissions[1] == 'w' || offset < LAYOUT_MAPPINGS) && below->name &&
        (below->kind == MAP_PROGRAM || below->kind == MAP_LIBRARY || below->kind == MAP_OWN))
        return below->kind;
    if (region->permissions[3] == 's')
        return MAP_SHARED;
    return is_arena(map, at) ? MAP_HEAP : MAP_ANONYMOUS;
}

/* A task's trampolines are one shared page. */
static int is_trampolines(const struct map_region *region)
{
    return region->owner == MAP_TASK && layout_slot_of(region->start) != LAYOUT_SLOTS &&
           (region->start - LAYOUT_REGION) % LAYOUT_RANGE < LAYOUT_FILES;
}

static void set_kind(struct map *map, size_t at)
{
    struct map_region *region = &map->regions[at];
    if (region->owner == MAP_REAPER)
        region->kind = MAP_STACK;
    else if (is_onespace(map, region) || is_trampolines(region))
        region->kind = MAP_OWN;
    else
        region->kind = region->name ? kind_of_name(map, at) : kind_of_place(map, at);
}

/* ---- Threads ---- */

static struct map_region *region_at(const struct map *map, uintptr_t address)
{
    size_t low = 0, high = map->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (map->regions[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < map->count && map->regions[low].start <= address ? &map->regions[low] : NULL;
}

struct thread_search {
    struct map *map;
    int pid; /* of the process: its main thread has the main stack */
};

/* A libc registers its list of robust locks in the thread's descriptor, which lies in the same
 * mapping as its stack. The inaccessible mapping below is the stack's guard. */
static void mark_thread(void *context, int thread, int directory)
{
    const struct thread_search *search = context;
    const struct map *map = search->map;
    void *head = NULL;
    size_t size;
    (void)directory;
    if (thread == search->pid || syscall(SYS_get_robust_list, thread, &head, &size) != 0 || !head)
        return;
    struct map_region *region = region_at(map, (uintptr_t)head);
    if (!region || region->kind != MAP_ANONYMOUS)
        return;
    region->kind = MAP_THREAD_STACK;
    if (region > map->regions && region[-1].end == region->start &&
        region[-1].kind == MAP_ANONYMOUS && strcmp(region[-1].permissions, "---p") == 0)
        region[-1].kind = MAP_THREAD_STACK;
}

void map_classify(struct map *map)
{
    map_set_owners(map);
    for (size_t i = 0; i < map->count; i++)
        set_kind(map, i);
    for (unsigned i = 0; i < map->space->task_count; i++) {
        const struct ps_task *task = &map->space->tasks[i];
        struct thread_search search = {map, task->pid};
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/task", task->pid);
        if (strcmp(task->state, "running") == 0 && task->pid > 0)
            (void)proc_each_number(path, mark_thread, &search);
    }
}
