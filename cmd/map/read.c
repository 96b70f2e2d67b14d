/* cmd/map/read.c: the mappings of a space, from /proc/PID/smaps of one of its processes: all have
 * the same memory.
 *
 * A process may end while its file is read. Then the file ends early, or gives an error, and
 * another process is tried. */
#include "cmd/map/map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
