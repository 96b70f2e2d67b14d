/* cmd/ps/find.c: finds the processes that have a space's registry in their memory.
 *
 * The registry is a mapping with a name of its own at a fixed address, low in the address space: an
 * early line of /proc/PID/maps, so a large process costs no more than a small one. */
#include "cmd/ps/ps.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Name, parent, user and innermost pid, from /proc/PID/status. 0 or -1 when the process has ended.
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
    ps_open_spaces();
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

static int is_wanted(const struct ps_space *space, const char *wanted)
{
    char *end;
    long pid = strtol(wanted, &end, 10);
    if (strcmp(space->name, wanted) == 0)
        return 1;
    if (end == wanted || *end || pid <= 0)
        return 0;
    if (pid == space->root_pid || pid == space->reaper_pid)
        return 1;
    for (unsigned i = 0; i < space->task_count; i++)
        if (space->tasks[i].pid == pid)
            return 1;
    return 0;
}

int ps_each(const char *wanted, void (*visit)(struct ps_space *space, void *context), void *context)
{
    struct ps_member *members;
    int count = ps_find(&members), visited = 0;
    for (int from = 0, to; from < count; from = to) {
        struct ps_space space;
        /* Without members there is no positive count.
         * NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        for (to = from; to < count && members[to].space == members[from].space;)
            to++;
        if (ps_read(members + from, (unsigned)(to - from), &space) < 0)
            continue; /* it has ended meanwhile */
        if (!wanted || is_wanted(&space, wanted)) {
            visit(&space, context);
            visited++;
        }
        free(space.tasks);
        free(space.channels);
        free(space.shared);
    }
    if (count < 0)
        return count;
    free(members);
    return visited;
}

/* The user of the process, if its memory may not be read; else NULL. */
static const char *forbidden_to(const char *wanted, char text[32])
{
    char path[64], *end;
    struct stat stat_of;
    long pid = strtol(wanted, &end, 10);
    if (end == wanted || *end || pid <= 0)
        return NULL;
    snprintf(path, sizeof(path), "/proc/%ld/maps", pid);
    FILE *maps = fopen(path, "re");
    if (maps)
        fclose(maps);
    if (maps || (errno != EACCES && errno != EPERM))
        return NULL;
    *strrchr(path, '/') = 0;
    if (stat(path, &stat_of) != 0)
        return NULL;
    const struct passwd *user = getpwuid(stat_of.st_uid);
    if (user)
        snprintf(text, 32, "%.31s", user->pw_name);
    else
        snprintf(text, 32, "%u", (unsigned)stat_of.st_uid);
    return text;
}

void ps_explain(const char *command, const char *wanted, int result)
{
    char text[32];
    const char *user = result == 0 && wanted ? forbidden_to(wanted, text) : NULL;
    if (result < 0)
        fprintf(stderr, "%s: cannot read /proc: %s: mount it\n", command, strerror(-result));
    else if (user)
        fprintf(stderr,
                "%s: the memory of process %s, of user %s, may not be looked at: run this as root "
                "or as that user\n",
                command, wanted, user);
    else
        fprintf(stderr,
                "%s: no space is called %s, and none that you may look at holds a process of that "
                "number\n",
                command, wanted);
}
