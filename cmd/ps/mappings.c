/* cmd/ps/mappings.c: the mappings of a space, and the owner of each.
 *
 * /proc/PID/smaps of any process of the space will do: all have the same memory. A process may end
 * while its file is read. Then the file ends early or gives an error, and another process is tried.
 */
#include "cmd/ps/ps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "cmd/lib/array.h"
#include "onespace.h"

/* ---- Reading ---- */

/* Adds the mapping that the line begins: 1; 0 if it begins none; or -ENOMEM. */
static int begin_region(struct map *map, char *line)
{
    struct proc_mapping mapping;
    line[strcspn(line, "\n")] = 0;
    if (!proc_parse_mapping(line, &mapping) ||
        mapping.start > INTPTR_MAX) /* [vsyscall], in the kernel's half of the address space */
        return 0;
    struct map_region *more =
        array_grow(map->regions, &map->capacity, map->count + 1, sizeof(*more));
    if (!more)
        return -ENOMEM;
    map->regions = more;
    struct map_region *region = &more[map->count++];
    *region =
        (struct map_region){.start = mapping.start, .end = mapping.end, .offset = mapping.offset};
    memcpy(region->permissions, mapping.permissions, sizeof(region->permissions));
    region->name = *mapping.name ? strdup(mapping.name) : NULL;
    return *mapping.name && !region->name ? -ENOMEM : 1;
}

/* The fields of smaps, and what they add to. Rss and Pss leave out huge pages of hugetlbfs. */
static const struct {
    const char *name;
    size_t sum;
} fields[] = {
    {"Rss", offsetof(struct map_region, resident)},
    {"Shared_Hugetlb", offsetof(struct map_region, resident)},
    {"Private_Hugetlb", offsetof(struct map_region, resident)},
    {"Pss", offsetof(struct map_region, proportional)},
    {"Private_Hugetlb", offsetof(struct map_region, proportional)},
    {"Private_Clean", offsetof(struct map_region, private)},
    {"Private_Dirty", offsetof(struct map_region, private)},
    {"Private_Hugetlb", offsetof(struct map_region, private)},
    {"Swap", offsetof(struct map_region, swapped)},
    {"Swap", offsetof(struct map_region, anonymous)},
    {"Anonymous", offsetof(struct map_region, anonymous)},
    {"AnonHugePages", offsetof(struct map_region, huge)},
    {"ShmemPmdMapped", offsetof(struct map_region, huge)},
    {"FilePmdMapped", offsetof(struct map_region, huge)},
    {"Shared_Hugetlb", offsetof(struct map_region, huge)},
    {"Private_Hugetlb", offsetof(struct map_region, huge)},
};

static void add_field(struct map *map, const char *line)
{
    uint64_t kilobytes;
    char name[32];
    if (map->count == 0)
        return;
    struct map_region *region = &map->regions[map->count - 1];
    if (strncmp(line, "VmFlags:", 8) == 0) { /* pairs of letters */
        region->is_device = strstr(line + 8, " io") || strstr(line + 8, " pf");
        region->not_dumped = strstr(line + 8, " dd") != NULL;
        region->is_hugetlb = strstr(line + 8, " ht") != NULL;
    }
    if (sscanf(line, "%31[^:]: %" SCNu64 " kB", name, &kilobytes) != 2)
        return;
    map->counted |= strcmp(name, "Rss") == 0;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (strcmp(name, fields[i].name) == 0)
            *(uint64_t *)((char *)region + fields[i].sum) += kilobytes * 1024;
}

/* From one process: 0 when the registry was among what it has, or -errno. */
static int read_from(int pid, const char *file, struct map *map)
{
    char path[64], *line = NULL;
    size_t size = 0;
    int result = 0, is_complete = 0;
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    FILE *smaps = fopen(path, "re");
    if (!smaps)
        return -errno;
    while (result >= 0 && getline(&line, &size, smaps) > 0) {
        result = begin_region(map, line);
        if (result == 0)
            add_field(map, line);
        else if (result > 0)
            is_complete |= map->regions[map->count - 1].start == LAYOUT_REGISTRY;
    }
    if (result >= 0 && (ferror(smaps) || !is_complete))
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
    *map = (struct map){.space = map->space};
}

/* ---- Owners ----
 *
 * The owner follows from the address: the range that contains it, or a task's list of out-of-range
 * mappings. */

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
static void set_outside_owner(const struct map *map, struct map_region *region,
                              struct ps_task *root, int not_interposed)
{
    struct ps_task *owner = ps_out_of_range_owner(map->space, region->start);
    int is_certain =
        !not_interposed || (region->name && (region->name[0] == '[' ||
                                             (root && strcmp(region->name, root->program) == 0)));
    region->owner = owner ? MAP_TASK : is_certain ? MAP_ROOT : MAP_NOBODY;
    region->slot = owner ? owner->slot : 0;
    region->task = owner ? owner : is_certain ? root : NULL;
}

void map_set_owners(struct map *map)
{
    const struct ps_space *space = map->space;
    struct ps_task *of_slot[LAYOUT_SLOTS] = {NULL};
    int not_interposed = any_not_interposed(space);
    for (unsigned i = 0; i < space->task_count; i++)
        if (space->tasks[i].slot != 0 || space->tasks[i].id == 0)
            of_slot[space->tasks[i].slot] = &space->tasks[i];
    for (size_t i = 0; i < map->count; i++) {
        struct map_region *region = &map->regions[i];
        unsigned slot = layout_slot_of(region->start);
        if (slot == LAYOUT_SLOTS) {
            set_outside_owner(map, region, of_slot[0], not_interposed);
        } else if (slot == 0) {
            region->owner = region->start >= LAYOUT_REAPER && region->start < LAYOUT_CACHE
                                ? MAP_REAPER
                                : MAP_REGISTRY;
        } else {
            region->owner = MAP_TASK;
            region->slot = slot;
            region->task = of_slot[slot];
        }
    }
}
