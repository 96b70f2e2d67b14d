/* src/host/room/groups.c: see groups.h. */
#include "host/room/groups.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The directory of our group for a controller: version 1 where that has it, else version 2. 0 or
 * -1. *mount is the length of the part that is the mount point. */
static int find_group(const char *controller, char directory[PATH_MAX], size_t *mount)
{
    char line[PATH_MAX], unified[PATH_MAX] = "", path[PATH_MAX] = "";
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return -1;
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *where = names ? strchr(names + 1, ':') : NULL;
        if (!where)
            continue;
        *where++ = 0;
        if (!names[1])
            snprintf(unified, sizeof(unified), "%s", where);
        for (char *save, *name = strtok_r(names + 1, ",", &save); name;
             name = strtok_r(NULL, ",", &save))
            if (strcmp(name, controller) == 0)
                snprintf(path, sizeof(path), "%s", where);
    }
    fclose(file);
    const char *base = "/sys/fs/cgroup";
    int length = path[0] ? snprintf(directory, PATH_MAX, "%s/%s", base, controller)
                         : snprintf(directory, PATH_MAX, "%s", base);
    *mount = (size_t)length;
    if (!path[0] && !unified[0])
        return -1;
    const char *below = path[0] ? path : unified;
    if (strlen(below) + *mount >= PATH_MAX)
        return -1;
    strcpy(directory + *mount, strcmp(below, "/") == 0 ? "" : below);
    return 0;
}

/* A number in a file of the directory, or UNLIMITED: "max", or no such file. */
static uint64_t read_number(const char *directory, const char *name)
{
    char path[PATH_MAX + 64], text[64];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (length <= 0 || text[0] < '0' || text[0] > '9')
        return GROUPS_UNLIMITED;
    text[length] = 0;
    return strtoull(text, NULL, 10);
}

static uint64_t left_in(const char *directory, const char *name, const char *used)
{
    uint64_t limit = read_number(directory, name);
    uint64_t taken = limit == GROUPS_UNLIMITED || !used ? 0 : read_number(directory, used);
    if (taken == GROUPS_UNLIMITED)
        taken = 0;
    return limit == GROUPS_UNLIMITED ? limit : limit > taken ? limit - taken : 0;
}

uint64_t groups_left(const char *controller, const char *const names[2], const char *used)
{
    char directory[PATH_MAX];
    size_t mount;
    uint64_t least = GROUPS_UNLIMITED;
    if (find_group(controller, directory, &mount) < 0)
        return least;
    for (;;) {
        for (unsigned i = 0; i < 2; i++) {
            uint64_t left = left_in(directory, names[i], used);
            least = left < least ? left : least;
        }
        if (strlen(directory) <= mount)
            return least;
        *strrchr(directory, '/') = 0;
    }
}

uint64_t groups_limit(const char *controller, const char *const names[2])
{
    return groups_left(controller, names, NULL);
}
