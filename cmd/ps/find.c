/* cmd/ps/find.c: finds the processes that have a space's registry in their memory, and visits
 * their spaces.
 *
 * The registry is a mapping with a name of its own at a fixed address, low in the address space. It
 * is an early line of /proc/PID/maps, so a large process costs no more than a small one. */
#include "cmd/ps/ps.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/raw.h"
#include "cmd/lib/array.h"
#include "cmd/lib/files.h"
#include "cmd/lib/output.h"
#include "cmd/lib/user.h"
#include "launch/identity.h"
#include "reaper/reaper.h"

/* ---- Whether this user may trace a process ---- */

int access_tracer(int pid)
{
    char path[64], line[256];
    int tracer = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof(line), status))
        sscanf(line, "TracerPid: %d", &tracer);
    if (status)
        fclose(status);
    return tracer;
}

int access_yama_scope(void)
{
    char text[16];
    return file_read_line("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text)) == 0
               ? atoi(text)
               : 0;
}

/* The kernel makes the same checks for opening that file as for attaching. */
int access_check(const char *command, int pid)
{
    char path[64];
    int tracer = access_tracer(pid);
    snprintf(path, sizeof(path), "/proc/%d/mem", pid);
    if (tracer) {
        fprintf(
            stderr,
            "%s: process %d is traced by process %d already, and a process has one tracer: end or "
            "detach that tracer first\n",
            command, pid, tracer);
        return 1;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 || errno == ENOENT || errno == ESRCH) { /* ESRCH: its main thread has ended */
        if (fd >= 0)
            close(fd);
        return 0;
    }
    int error = errno, scope = access_yama_scope();
    if (scope == YAMA_NO_ATTACH)
        fprintf(stderr,
                "%s: process %d may not be traced: kernel.yama.ptrace_scope is 3, which forbids it "
                "even to root until the next reboot\n",
                command, pid);
    else if (scope > 0)
        fprintf(stderr,
                "%s: process %d may not be traced, because kernel.yama.ptrace_scope is %d: `sysctl "
                "kernel.yama.ptrace_scope=0` lets users trace their own processes\n",
                command, pid, scope);
    else
        fprintf(stderr,
                "%s: process %d may not be traced (%s): run this as the user of the space, in a "
                "container with the right to ptrace\n",
                command, pid, strerror(error));
    return 1;
}

/* ---- Making undumpable spaces readable ----
 *
 * Before Linux 5.16 a space is undumpable (reaper/reaper.h): only privileged processes may read its
 * members, although this user owns them. On a signal the reaper makes the space dumpable. It makes
 * it undumpable again when this process has ended, for any reason.
 *
 * The signal would end any other process. A reaper has its name, and handles the signal if its
 * space is undumpable. A task has both from the reaper for a moment when it starts, but its parent
 * is the reaper, while the reaper's is the root. */

enum { WAIT_MS = 5000 };

/* Also tells the parent. */
static int is_named_reaper(int pid, int *parent)
{
    struct proc_stat stat;
    if (proc_read_stat(pid, &stat) != 0 || strcmp(stat.name, PS_REAPER) != 0)
        return 0;
    *parent = stat.parent;
    return 1;
}

static int awaits_signal(int pid)
{
    int parent, grandparent;
    return is_named_reaper(pid, &parent) &&
           proc_status_has_bits(pid, "SigCgt:", signal_bit(DUMPABLE_SIGNAL)) &&
           !is_named_reaper(parent, &grandparent);
}

static int is_readable(int pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0 || (errno != EACCES && errno != EPERM);
}

/* Also what is open, unless this process is privileged: another command may have opened it, and end
 * before this one. */
static void make_readable(void *unused, int pid, int directory)
{
    (void)unused, (void)directory;
    if (!awaits_signal(pid) || (geteuid() == 0 && is_readable(pid)))
        return;
    for (int i = 0; i < WAIT_MS; i++) {
        if (kill(pid, DUMPABLE_SIGNAL) != 0 || is_readable(pid)) /* another user's, or gone; done */
            return;
        usleep(1000);
    }
}

/* Makes the undumpable spaces of this user readable (reaper/reaper.h) until this command ends. */
static void open_spaces(void)
{
    (void)proc_each_number("/proc", make_readable, NULL);
}

/* ---- Members ---- */

#define REGISTRY_NAME "/memfd:onespace-space"

static FILE *open_at(int directory, const char *name)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

struct registry_search {
    uint64_t found; /* inode */
    int has_memory; /* the thread maps anything, or what it maps may not be read */
};

/* `maps`: of a thread, relative to the directory. */
static void search_registry(struct registry_search *search, int directory, const char *maps)
{
    char line[4352];
    struct proc_mapping mapping = {.start = 0};
    FILE *file = open_at(directory, maps);
    search->has_memory |= !file && (errno == EACCES || errno == EPERM);
    while (file && !search->found && mapping.start <= LAYOUT_REGISTRY &&
           fgets(line, sizeof(line), file)) {
        search->has_memory = 1;
        if (proc_parse_mapping(line, &mapping) && mapping.start == LAYOUT_REGISTRY &&
            strncmp(mapping.name, REGISTRY_NAME, sizeof(REGISTRY_NAME) - 1) == 0)
            search->found = mapping.inode;
    }
    if (file)
        fclose(file);
}

static void search_registry_of_thread(void *context, int thread, int directory)
{
    struct registry_search *search = context;
    char maps[32];
    snprintf(maps, sizeof(maps), "%d/maps", thread);
    if (!search->has_memory)
        search_registry(search, directory, maps);
}

/* The inode of the registry that the process maps, or 0. `directory` is /proc/PID, which shows the
 * memory of the main thread: none, if that has ended by pthread_exit before the others. */
static uint64_t registry_of(int directory)
{
    struct registry_search search = {0};
    char threads[64];
    search_registry(&search, directory, "maps");
    snprintf(threads, sizeof(threads), "/proc/self/fd/%d/task", directory);
    if (!search.has_memory)
        (void)proc_each_number(threads, search_registry_of_thread, &search);
    return search.found;
}

/* Name, parent, effective user and group, and innermost pid. 0 or -1 when the process has ended. */
static int read_status(int directory, struct ps_member *member)
{
    char line[512];
    FILE *status = open_at(directory, "status");
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
            sscanf(value + 1, "%*u %u", &member->user);
        else if (strncmp(line, "Gid:", 4) == 0)
            sscanf(value + 1, "%*u %u", &member->group);
        else if (strncmp(line, "PPid:", 5) == 0)
            member->parent = atoi(value + 1);
        else if (strncmp(line, "NSpid:", 6) == 0 && strrchr(line, '\t'))
            member->inner_pid = atoi(strrchr(line, '\t') + 1);
    }
    fclose(status);
    return 0;
}

/* The descriptor of /proc/PID stays that process's, even if the pid is another's later. */
static int open_process(int pid)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d", pid);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int ps_read_status(struct ps_member *member)
{
    int directory = open_process(member->pid);
    if (directory < 0)
        return -1;
    int result = read_status(directory, member);
    if (result == 0)
        member->space = registry_of(directory);
    close(directory);
    return result;
}

int ps_open_memory(const struct ps_key *key, int pid, int flags)
{
    struct ps_member member = {.pid = pid};
    int directory = open_process(pid), result = -ESRCH;
    if (directory < 0)
        return -errno;
    int memory = openat(directory, "mem", flags | O_CLOEXEC);
    char byte; /* there is none to read if its main thread has ended before the others */
    if (memory < 0)
        result = -errno;
    else if (pread(memory, &byte, 1, LAYOUT_REGISTRY) == 1 &&
             registry_of(directory) == key->registry && read_status(directory, &member) == 0 &&
             member.user == key->user)
        result = memory;
    if (memory >= 0 && result < 0)
        close(memory);
    close(directory);
    return result;
}

static int compare_members(const void *left, const void *right)
{
    const struct ps_member *a = left, *b = right;
    if (a->space != b->space)
        return a->space < b->space ? -1 : 1;
    if (a->owner != b->owner)
        return a->owner < b->owner ? -1 : 1;
    return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static int compare_pids(const void *left, const void *right)
{
    const struct ps_member *a = left, *b = right;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

/* A space belongs to the user of its topmost process. The parents are the kernel's information, so
 * that the contents of a registry cannot make a space look like another user's. */
static void set_owners(struct ps_member *members, unsigned count)
{
    if (count)
        qsort(members, count, sizeof(*members), compare_pids);
    for (unsigned i = 0; i < count; i++) {
        const struct ps_member *top = &members[i];
        for (unsigned steps = 0; steps < count; steps++) {
            struct ps_member key = {.pid = top->parent};
            const struct ps_member *parent =
                bsearch(&key, members, count, sizeof(*members), compare_pids);
            if (!parent || parent->space != top->space)
                break;
            top = parent;
        }
        members[i].owner = top->user;
    }
}

struct member_list {
    struct ps_member *members;
    size_t count, capacity;
    int error;
};

static void add_if_member(void *context, int pid, int directory)
{
    struct member_list *list = context;
    struct ps_member member = {.pid = pid};
    (void)directory;
    if (list->error || ps_read_status(&member) != 0 || !member.space)
        return;
    struct ps_member *more =
        array_grow(list->members, &list->capacity, list->count + 1, sizeof(*more));
    if (!more) {
        list->error = -ENOMEM;
        return;
    }
    list->members = more;
    more[list->count++] = member;
}

/* The members of all spaces that this user may look at, sorted by space, owner and pid. Their count
 * or -errno; *members is the caller's to free. */
static int find_members(struct ps_member **members)
{
    struct member_list list = {.members = NULL};
    open_spaces();
    long result = proc_each_number("/proc", add_if_member, &list);
    if (result < 0 || list.error) {
        free(list.members);
        *members = NULL;
        return list.error ? list.error : (int)result;
    }
    *members = list.members;
    set_owners(list.members, (unsigned)list.count);
    if (list.count)
        qsort(list.members, list.count, sizeof(*list.members), compare_members);
    return (int)list.count;
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

/* ---- Visits ---- */

enum { NOT_VISITED = PS_VALUE_MAX + 1, NOT_BECOME, MEMORIES = 2 };

/* The value of the visit, or NOT_VISITED. */
static int read_and_visit(const struct ps_query *query, const struct ps_key *key,
                          const struct ps_member *members, unsigned count)
{
    struct ps_space space;
    int value = NOT_VISITED;
    if (ps_read(key, members, count, &space) < 0)
        return value; /* it has ended */
    if (query->json)
        query->json->out = *query->out;
    if (!query->wanted || is_wanted(&space, query->wanted))
        value = query->visit(&space, query->context);
    ps_free(&space);
    return value;
}

/* Copies a child's output until the child ends or is stuck. It may have been compromised by the
 * memory that it read: removes control characters, and kills it if there is no end to its output.
 */
static void copy_without_controls(pid_t child, int from, FILE *to)
{
    enum { CHECK_MS = 200, MOST = 1 << 30 };
    char text[4096];
    size_t kept = 0, total = 0; /* kept: the first byte of what may be a control character of two */
    struct pollfd readable = {from, POLLIN, 0};
    struct user_progress progress = {.reads_only = 1};
    siginfo_t ended = {0};
    for (;;) {
        int ready = poll(&readable, 1, ended.si_pid ? 0 : CHECK_MS);
        if (ready == 0 && ended.si_pid)
            return; /* a child of the child has the pipe */
        if (ready == 0 && waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            ended.si_pid)
            continue; /* it may have written meanwhile */
        if (total > MOST || (ready == 0 && user_is_stuck(&progress, child))) {
            kill(child, SIGKILL);
            return;
        }
        if (ready <= 0)
            continue;
        ssize_t got = read(from, text + kept, sizeof(text) - kept);
        if (got == 0 || (got < 0 && errno != EINTR))
            return;
        size_t size = kept + (got > 0 ? (size_t)got : 0);
        total += size;
        kept = size > 1 && text[size - 1] == '\xc2';
        output_clean_lines(text, size - kept);
        fwrite(text, 1, size - kept, to);
        text[0] = '\xc2';
    }
}

/* In the child. The memory is opened with the rights that this command has, which a kernel with
 * Yama may demand; all else is done with those of the user. */
static int visit_as_user(const struct ps_query *query, const struct ps_key *key,
                         const struct ps_member *members, unsigned count, int out)
{
    for (unsigned i = 0, opened = 0; i < count && opened < MEMORIES; i++) {
        int memory = ps_open_memory(key, members[i].pid, O_RDONLY);
        if (memory < 0)
            continue;
        ps_copy_by(members[i].pid, memory);
        opened++;
    }
    int error = user_become(key->user, key->group);
    if (error != 0) {
        fprintf(stderr,
                "%s: a space of user %u is left out, because this process cannot become that user: "
                "%s\n",
                query->command, (unsigned)key->user, strerror(-error));
        return NOT_BECOME;
    }
    open_spaces();
    if (query->out && !(*query->out = fdopen(out, "w")))
        return NOT_VISITED;
    int value = read_and_visit(query, key, members, count);
    fflush(NULL);
    return value;
}

/* Reads the space of another user in a child process with the rights of that user. */
static int visit_in_child(const struct ps_query *query, const struct ps_key *key,
                          const struct ps_member *members, unsigned count)
{
    int ends[2], status, error = 0;
    char *text = NULL;
    size_t size = 0;
    fflush(NULL);
    FILE *output = open_memstream(&text, &size);
    if (!output || pipe2(ends, O_CLOEXEC) != 0) {
        error = -errno;
        if (output)
            fclose(output);
        free(text);
        return error;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        _exit(visit_as_user(query, key, members, count, ends[1]));
    }
    error = child < 0 ? -errno : 0;
    close(ends[1]);
    if (child > 0 && query->out)
        copy_without_controls(child, ends[0], output);
    close(ends[0]);
    int is_left = child > 0 && user_await(child, query->out != NULL, &status) < 0;
    if (fclose(output) != 0 && error == 0)
        error = -ENOMEM;
    /* The output of a child that was killed is incomplete. */
    if (query->out && error == 0 && !is_left && WIFEXITED(status) &&
        WEXITSTATUS(status) <= PS_VALUE_MAX)
        fwrite(text, 1, size, *query->out);
    free(text);
    if (error == 0 && is_left) {
        fprintf(stderr,
                "%s: a space of user %u is left out: the process that reads it cannot be ended\n",
                query->command, (unsigned)key->user);
        return NOT_VISITED;
    }
    if (error == 0 && WIFSIGNALED(status))
        fprintf(stderr,
                "%s: a space of user %u is left out: the process that read it was ended by signal "
                "%d\n",
                query->command, (unsigned)key->user, WTERMSIG(status));
    return error ? error : WIFEXITED(status) ? WEXITSTATUS(status) : NOT_VISITED;
}

/* The space of the process whose number is wanted: a name that is a number counts only if there is
 * none. */
static const struct ps_member *wanted_member(const struct ps_query *query,
                                             const struct ps_member *members, int count)
{
    char *end;
    long pid = query->wanted ? strtol(query->wanted, &end, 10) : 0;
    for (int i = 0; i < count && pid > 0 && !*end; i++)
        if (members[i].pid == pid)
            return &members[i];
    return NULL;
}

int ps_each(const struct ps_query *query)
{
    struct ps_member *members;
    int count = find_members(&members), visited = 0, error = 0;
    if (count < 0 || !members) /* without members there is no positive count */
        return count;
    const struct ps_member *wanted = wanted_member(query, members, count);
    for (int from = 0, to; from < count && error == 0; from = to) {
        const struct ps_member *first = &members[from];
        struct ps_key key = {first->space, first->owner, first->group};
        for (to = from;
             to < count && members[to].space == key.registry && members[to].owner == key.user; to++)
            if (members[to].user == key.user)
                key.group = members[to].group;
        if ((wanted && (wanted->space != key.registry || wanted->owner != key.user)) ||
            (query->key && (query->key->registry != key.registry || query->key->user != key.user)))
            continue;
        int value = (geteuid() == key.user ? read_and_visit : visit_in_child)(
            query, &key, first, (unsigned)(to - from));
        if (value < 0)
            error = value;
        else if (value <= PS_VALUE_MAX) {
            visited++;
            if (query->visited)
                query->visited(&key, value, query->context);
            if (query->json && value == 0) /* perhaps by another process */
                query->json->filled = 1;
        }
    }
    free(members);
    return error ? error : visited;
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
                "%s: the memory of process %s, of user %s, cannot be read: run this as that "
                "user\n",
                command, wanted, user);
    else
        fprintf(stderr,
                "%s: no space is called %s, and none that you may look at holds a process of that "
                "number\n",
                command, wanted);
}

int ps_report(const struct ps_query *query)
{
    FILE *out = *query->out;
    struct output_json *json = query->json;
    if (json) {
        json->out = out;
        json_open(json, NULL, '[');
    }
    int count = ps_each(query);
    if (json) {
        json->out = out;
        json_close(json, ']');
    }
    if (count < 0 || (count == 0 && query->wanted)) {
        ps_explain(query->command, query->wanted, count);
        return -1;
    }
    if (count == 0 && !json)
        fprintf(out, "no spaces\n");
    return count;
}
