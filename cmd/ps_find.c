/* cmd/ps_find.c: find the processes that have a space's registry in their memory.
 *
 * The registry is a mapping with a name of its own at a fixed address, low in the address space: an
 * early line of /proc/PID/maps, so a large process costs no more than a small one. */
#include "ps.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define REGISTRY_NAME "/memfd:onespace-space"

/* The inode of the registry that the process maps, or 0. */
static uint64_t find_registry(int pid)
{
    char path[64], line[4352];
    uint64_t start, inode, found = 0;
    int name_at;
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return 0;
    while (!found && fgets(line, sizeof(line), maps)) {
        name_at = 0;
        if (sscanf(line, "%" SCNx64 "-%*s %*s %*s %*s %" SCNu64 " %n", &start, &inode, &name_at) !=
            2)
            continue;
        if (start > LAYOUT_REGISTRY)
            break;
        if (start == LAYOUT_REGISTRY && name_at &&
            strncmp(line + name_at, REGISTRY_NAME, sizeof(REGISTRY_NAME) - 1) == 0)
            found = inode;
    }
    fclose(maps);
    return found;
}

/* Name, parent, user and innermost pid, from /proc/PID/status. 0 or -1 when the process has gone.
 */
static int read_status(struct ps_member *member)
{
    char path[64], line[512];
    snprintf(path, sizeof(path), "/proc/%d/status", member->pid);
    FILE *status = fopen(path, "re");
    if (!status)
        return -1;
    member->inner_pid = member->pid;
    while (fgets(line, sizeof(line), status)) {
        const char *value = strchr(line, ':');
        if (!value)
            continue;
        if (strncmp(line, "Name:", 5) == 0)
            sscanf(value + 1, " %31[^\n]", member->command);
        else if (strncmp(line, "Uid:", 4) == 0)
            member->user = (uid_t)strtoul(value + 1, NULL, 10);
        else if (strncmp(line, "PPid:", 5) == 0)
            member->parent = atoi(value + 1);
        else if (strncmp(line, "NSpid:", 6) == 0 && strrchr(line, '\t'))
            member->inner_pid = atoi(strrchr(line, '\t') + 1);
    }
    fclose(status);
    return 0;
}

static int compare_members(const void *left, const void *right)
{
    const struct ps_member *a = left, *b = right;
    if (a->space != b->space)
        return a->space < b->space ? -1 : 1;
    return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static int append(struct ps_member **members, unsigned *count, const struct ps_member *member)
{
    if ((*count & (*count - 1)) == 0) { /* full at each power of two */
        struct ps_member *more = realloc(*members, (*count ? 2 * *count : 1) * sizeof(*more));
        if (!more)
            return -ENOMEM;
        *members = more;
    }
    (*members)[(*count)++] = *member;
    return 0;
}

int ps_find(struct ps_member **members)
{
    DIR *processes = opendir("/proc");
    unsigned count = 0;
    int result = 0;
    *members = NULL;
    if (!processes)
        return -errno;
    for (struct dirent *entry; result == 0 && (entry = readdir(processes));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        struct ps_member member = {.pid = atoi(entry->d_name)};
        member.space = find_registry(member.pid);
        if (member.space && read_status(&member) == 0)
            result = append(members, &count, &member);
    }
    closedir(processes);
    if (result < 0) {
        free(*members);
        return result;
    }
    if (count)
        qsort(*members, count, sizeof(**members), compare_members);
    return (int)count;
}
