/* cmd/map/mappings.c: the mappings of a space, with the owner and the kind of each. */
#include "cmd/map/map.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "onespace.h"

/* ---- Reading ----
 *
 * /proc/PID/smaps of any process of the space will do: all have the same memory. A process may end
 * while its file is read. Then the file ends early or gives an error, and another process is tried.
 */

static struct map_region *append(struct map *map)
{
    if (map->count == map->room) {
        size_t room = map->room ? 2 * map->room : 256;
        struct map_region *more = realloc(map->regions, room * sizeof(*more));
        if (!more)
            return NULL;
        map->regions = more;
        map->room = room;
    }
    struct map_region *region = &map->regions[map->count++];
    memset(region, 0, sizeof(*region));
    return region;
}

static int begin_region(struct map *map, char *line)
{
    uintptr_t start, end;
    uint64_t offset;
    char permissions[5];
    int name_at = 0;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %*s %*s %n", &start, &end,
               permissions, &offset, &name_at) != 4 ||
        start > INTPTR_MAX) /* [vsyscall], in the kernel's half of the address space */
        return 0;
    struct map_region *region = append(map);
    if (!region)
        return -ENOMEM;
    region->start = start;
    region->end = end;
    region->offset = offset;
    memcpy(region->permissions, permissions, sizeof(permissions));
    char *name = line + name_at;
    name[strcspn(name, "\n")] = 0;
    region->name = name_at && *name ? strdup(name) : NULL;
    return name_at && *name && !region->name ? -ENOMEM : 1;
}

/* Pairs of letters. */
static void add_flags(struct map_region *region, const char *flags)
{
    region->is_device = strstr(flags, " io") || strstr(flags, " pf");
    region->not_dumped = strstr(flags, " dd") != NULL;
    region->is_hugetlb = strstr(flags, " ht") != NULL;
}

static void add_field(struct map *map, const char *line)
{
    static const char *const huge[] = {"AnonHugePages", "ShmemPmdMapped", "FilePmdMapped",
                                       "Shared_Hugetlb", "Private_Hugetlb"};
    uint64_t kilobytes;
    char field[32];
    if (map->count > 0 && strncmp(line, "VmFlags:", 8) == 0)
        add_flags(&map->regions[map->count - 1], line + 8);
    if (map->count == 0 || sscanf(line, "%31[^:]: %" SCNu64 " kB", field, &kilobytes) != 2)
        return;
    struct map_region *region = &map->regions[map->count - 1];
    if (strcmp(field, "Rss") == 0) {
        region->resident += kilobytes * 1024;
        map->counted = 1;
    }
    if (strcmp(field, "Anonymous") == 0 || strcmp(field, "Swap") == 0)
        region->anonymous += kilobytes * 1024;
    for (unsigned i = 0; i < sizeof(huge) / sizeof(huge[0]); i++)
        if (strcmp(field, huge[i]) == 0)
            region->huge += kilobytes * 1024;
    if (strstr(field, "_Hugetlb")) /* which Rss leaves out */
        region->resident += kilobytes * 1024;
}

/* From one process: 0 when the registry was among what it has, or -errno. */
static int read_from(int pid, const char *file, struct map *map)
{
    char path[64], *line = NULL;
    size_t room = 0;
    int result = 0, complete = 0;
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    FILE *smaps = fopen(path, "re");
    if (!smaps)
        return -errno;
    while (result >= 0 && getline(&line, &room, smaps) > 0) {
        result = begin_region(map, line);
        if (result == 0)
            add_field(map, line);
        else if (result > 0)
            complete |= map->regions[map->count - 1].start == LAYOUT_REGISTRY;
    }
    if (result >= 0 && (ferror(smaps) || !complete))
        result = -ESRCH;
    fclose(smaps);
    free(line);
    if (result < 0)
        map_free(map);
    return result < 0 ? result : 0;
}

/* Kernels without CONFIG_PROC_PAGE_MONITOR have no smaps. */
static int read_process(int pid, struct map *map)
{
    if (pid <= 0)
        return -ESRCH;
    int result = read_from(pid, "smaps", map);
    return result == -ENOENT ? read_from(pid, "maps", map) : result;
}

int map_read(const struct ps_space *space, struct map *map)
{
    *map = (struct map){.space = space};
    const int first[] = {space->source_pid, space->root_pid, space->reaper_pid};
    int refused = 0, result = -ESRCH;
    for (unsigned i = 0; i < 3 + space->task_count && result != 0; i++) {
        const struct ps_task *task = i < 3 ? NULL : &space->tasks[i - 3];
        if (i >= 3 && strcmp(task->state, "running") != 0)
            continue;
        result = read_process(i < 3 ? first[i] : task->pid, map);
        if (result == -EACCES || result == -EPERM)
            refused = result;
        if (result == -ENOMEM)
            break;
    }
    return result == -ESRCH || result == -ENOENT ? (refused ? refused : -ESRCH) : result;
}

void map_free(struct map *map)
{
    for (size_t i = 0; i < map->count; i++)
        free(map->regions[i].name);
    free(map->regions);
    map->regions = NULL;
    map->count = map->room = 0;
}

/* ---- Classification ----
 *
 * The owner follows from the address: the range that contains it, or a task's list of out-of-range
 * mappings. The kind follows from the part of the range (src/space/layout.h), from the mapping's
 * name and, for mappings without a name, from the mapping below. The kernel helps to find a
 * thread's stack: the thread's libc has registered an address in it. */

static int starts_with(const char *text, const char *prefix)
{
    return text && strncmp(text, prefix, strlen(prefix)) == 0;
}

/* ---- Owners ---- */

static const struct ps_task *task_of_slot(const struct ps_space *space, unsigned slot)
{
    for (unsigned i = 0; i < space->task_count; i++)
        if (space->tasks[i].slot == slot && (slot != 0 || space->tasks[i].id == 0))
            return &space->tasks[i];
    return NULL;
}

static int any_not_interposed(const struct ps_space *space)
{
    for (unsigned i = 0; i < space->task_count; i++)
        if (space->tasks[i].flags & ONESPACE_SPAWN_NO_INTERPOSE)
            return 1;
    return 0;
}

/* Outside all ranges: the root's, except the out-of-range mappings of tasks. If there are tasks
 * without interposition, their mappings are there, too, and only the root's own program and the
 * kernel's named mappings are certainly the root's. */
static void set_outside_owner(const struct map *map, struct map_region *region, int not_interposed)
{
    const struct ps_task *owner = ps_out_of_range_owner(map->space, region->start);
    const struct ps_task *root = task_of_slot(map->space, 0);
    int certain = !not_interposed || starts_with(region->name, "[") ||
                  (region->name && root && strcmp(region->name, root->program) == 0);
    if (owner) {
        region->owner = MAP_TASK;
        region->slot = owner->slot;
        region->task = owner;
    } else if (certain) {
        region->owner = MAP_ROOT;
        region->task = root;
    } else {
        region->owner = MAP_NOBODY;
    }
}

static void set_owner(const struct map *map, struct map_region *region, int not_interposed)
{
    unsigned slot = layout_slot_of(region->start);
    if (slot == LAYOUT_SLOTS) {
        set_outside_owner(map, region, not_interposed);
    } else if (slot == 0) {
        region->owner = region->start >= LAYOUT_REAPER && region->start < LAYOUT_CACHE
                            ? MAP_REAPER
                            : MAP_REGISTRY;
    } else {
        region->owner = MAP_TASK;
        region->slot = slot;
        region->task = task_of_slot(map->space, slot);
    }
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

/* A libc registers its list of robust locks in the thread's descriptor, which lies in the same
 * mapping as its stack. The inaccessible mapping below is the stack's guard. */
static void mark_thread(struct map *map, int thread)
{
    void *head = NULL;
    size_t size;
    if (syscall(SYS_get_robust_list, thread, &head, &size) != 0 || !head)
        return;
    struct map_region *region = region_at(map, (uintptr_t)head);
    if (!region || region->kind != MAP_ANONYMOUS)
        return;
    region->kind = MAP_THREAD_STACK;
    if (region > map->regions && region[-1].end == region->start &&
        region[-1].kind == MAP_ANONYMOUS && strcmp(region[-1].permissions, "---p") == 0)
        region[-1].kind = MAP_THREAD_STACK;
}

static void mark_threads(struct map *map, int pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *threads = pid > 0 ? opendir(path) : NULL;
    if (!threads)
        return;
    for (struct dirent *entry; (entry = readdir(threads));)
        if (isdigit((unsigned char)entry->d_name[0]) && atoi(entry->d_name) != pid)
            mark_thread(map, atoi(entry->d_name));
    closedir(threads);
}

void map_set_owners(struct map *map)
{
    int not_interposed = any_not_interposed(map->space);
    for (size_t i = 0; i < map->count; i++)
        set_owner(map, &map->regions[i], not_interposed);
}

void map_classify(struct map *map)
{
    map_set_owners(map);
    for (size_t i = 0; i < map->count; i++)
        set_kind(map, i);
    for (unsigned i = 0; i < map->space->task_count; i++)
        if (strcmp(map->space->tasks[i].state, "running") == 0)
            mark_threads(map, map->space->tasks[i].pid);
}
