/* cmd/core/core.c: onespace core: writes a core of one task, which continues afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/core/core.h"
#include "cmd/lib/options.h"
#include "cmd/lib/output.h"
#include "cmd/lib/user.h"
#include "cmd/ps/ps.h"

const char core_help[] =
    "usage: onespace core [-o FILE] [--space SPACE] ID | PID\n"
    "usage: onespace core --from CORE [--crashed UID,GID,LIMIT,DUMP] [--max-mib N] -o FILE\n"
    "\n"
    "Writes a core of one task: its own memory, not that of the whole space, and the registers "
    "of its threads. Read it with the task's program: gdb PROGRAM FILE. The task is stopped "
    "while its memory is copied; other tasks keep running.\n"
    "\n"
    "  -o, --output FILE  write this file, not core.PID in the current directory\n"
    "      --space SPACE  the space of the ID; needed if several spaces have a task of that id\n"
    "      --from CORE  extract the crashed task from the core of the whole space that the "
    "kernel wrote; -: standard input, as in kernel.core_pattern\n"
    "      --crashed UID,GID,LIMIT,DUMP  read the core as that user and respect that limit: "
    "%u,%g,%c,%d in kernel.core_pattern\n"
    "      --max-mib N  refuse to write a larger core, with --from\n"
    "  -h, --help  print this help\n"
    "\n"
    "ID is the id of the task, as `onespace ps` lists it; 0 is the root. The process id of a "
    "task is accepted, too. /proc/PID/coredump_filter selects the memory that is written, as "
    "for the kernel's cores.\n"
    "\n"
    "Exit status: 0; 1 if there is no such task, it may not be traced or the file cannot be "
    "written; 2 on a usage error.\n";

struct request {
    const char *space; /* or NULL */
    const char *file;  /* or NULL */
    int number;
    int by_pid, by_id; /* how many spaces have a task with that pid, with that id */
    struct ps_key key; /* of the space with the task; a pid wins over an id */
    int has_pid;       /* whether that space has the pid */
    int status;        /* -1: no task was found */
    int fd;            /* of the file, opened before this process became the space's user; or -1 */
    int32_t *task_pid; /* shared with the process that writes the core */
};

/* ---- The file: complete under its name, or not there ---- */

static char temporary[PATH_MAX]; /* empty: none */

/* The kernel lets the task's threads continue when this process has ended. */
static void remove_file_and_die(int number)
{
    if (temporary[0])
        unlink(temporary);
    signal(number, SIG_DFL);
    raise(number);
}

static void set_signals(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (unsigned i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
        signal(ending[i], remove_file_and_die);
    signal(SIGXFSZ, SIG_IGN); /* writing fails instead */
}

int core_report_write_error(const char *path, int error)
{
    fprintf(stderr, "onespace core: %s: %s: %s\n", path, strerror(error),
            error == ENOSPC || error == EDQUOT || error == EFBIG
                ? "make room, or name a file elsewhere with -o"
                : "name a file that can be written with -o");
    return 1;
}

/* A new file beside the one of that name: a descriptor, or -1 with a message. */
static int open_temporary(const char *path)
{
    if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary))
        errno = ENAMETOOLONG;
    else {
        int fd = mkostemp(temporary, O_CLOEXEC);
        if (fd >= 0)
            return fd;
    }
    core_report_write_error(path, errno);
    temporary[0] = 0;
    return -1;
}

int core_open_file(const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        fprintf(stderr, "onespace core: %s is not a regular file: name another with -o\n", path);
        return -1;
    }
    return open_temporary(path);
}

void core_discard_file(int fd)
{
    close(fd);
    unlink(temporary);
    temporary[0] = 0;
}

int core_finish_file(int fd, const char *path, int64_t written)
{
    int error = written < 0 ? (int)-written : 0;
    if (close(fd) != 0 && !error)
        error = errno;
    if (!error && rename(temporary, path) != 0)
        error = errno;
    if (error)
        unlink(temporary);
    temporary[0] = 0;
    return error ? core_report_write_error(path, error) : 0;
}

/* ---- The task ---- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int explain(const struct ps_task *task, int result, int stuck)
{
    if (result == -ESRCH)
        fprintf(stderr, "onespace core: task %d (pid %d) has ended meanwhile\n", task->id,
                task->pid);
    else if (result == -ETIMEDOUT)
        fprintf(stderr,
                "onespace core: thread %d of task %d does not stop: it waits in the kernel for a "
                "device, or for a child that has not executed its program yet; try again later\n",
                stuck, task->id);
    else
        fprintf(stderr, "onespace core: task %d (pid %d) cannot be looked at: %s\n", task->id,
                task->pid, strerror(-result));
    return 1;
}

static unsigned count_inside(const struct code *code, const struct core_threads *threads)
{
    unsigned inside = 0;
    for (unsigned i = 0; i < threads->count && code->path[0]; i++)
        inside +=
            arch_instruction_of(&threads->all[i].registers) - code->low < code->high - code->low;
    return inside;
}

/* Without a list of libraries in the task, debuggers do not find the code of the space. */
static void print_code_hint(const struct code *code, unsigned inside)
{
    if (inside && output_has_control(code->path))
        printf("%u of the threads in a system call that onespace handles; the file with that code "
               "has control characters in its path, which is not shown\n",
               inside);
    else if (inside)
        printf("%u of the threads in a system call that onespace handles; for backtraces, in gdb: "
               "add-symbol-file %s -o %#jx\n",
               inside, code->path, (uintmax_t)code->base);
}

/* Between core_stop and core_release only the disk can delay the task. */
static int write_core(const struct ps_space *space, const struct ps_task *task, const char *path,
                      int opened)
{
    struct core_threads threads;
    struct core_memory memory;
    static struct space_slot slot;
    struct core_notes notes = {0};
    struct code code = {.path = ""};
    unsigned inside = 0;
    char size[OUTPUT_SHORT];
    int stuck = 0, fd = opened >= 0 ? opened : core_open_file(path);
    if (fd < 0)
        return 1;
    double start = now();
    int result = core_stop(task, &threads, &stuck);
    unsigned count = threads.count;
    int64_t written = 0;
    if (result == 0) {
        result = core_select_memory(space, task, threads.all[0].id, &memory);
        if (result == 0) {
            code = memory.code;
            inside = count_inside(&code, &threads);
            if (inside && core_read_slot(space, task, &slot) == 0 &&
                core_add_code(&slot, &memory) == 0)
                inside = 0;
            core_note(space, task, &threads, &memory, &notes);
            written = notes.failed ? -ENOMEM : core_write(fd, &memory, &notes);
            core_free_memory(&memory);
        }
        int released = core_release(&threads);
        result = result == 0 ? released : result;
    }
    double stopped = now() - start;
    free(notes.bytes);
    if (result != 0 && opened < 0)
        core_discard_file(fd);
    if (result != 0)
        return explain(task, result, stuck);
    if (opened < 0 && core_finish_file(fd, path, written) != 0)
        return 1;
    if (opened >= 0 && written < 0)
        return core_report_write_error(path, (int)-written);
    printf("%s: task %d (pid %d), %u thread%s, %s; stopped for %.3f s\n", path, task->id, task->pid,
           count, count == 1 ? "" : "s", output_bytes(size, (uint64_t)written), stopped);
    print_code_hint(&code, inside);
    return 0;
}

static int dump(const struct ps_space *space, const struct ps_task *task,
                const struct request *request)
{
    char path[32];
    if (strcmp(task->state, "running") != 0 || task->pid <= 0) {
        fprintf(
            stderr,
            "onespace core: task %d of the space of pid %d is not running in it (state: %s)%s\n",
            task->id, space->root_pid, task->state,
            strcmp(task->state, "executed") == 0 ? ": it is an ordinary process now, use gcore"
                                                 : "");
        return 1;
    }
    if (access_check("onespace core", task->pid) != 0)
        return 1;
    snprintf(path, sizeof(path), "core.%d", task->pid);
    *request->task_pid = task->pid;
    return write_core(space, task, request->file ? request->file : path, request->fd);
}

/* ---- Which task ---- */

enum { HAS_ID = 1, HAS_PID = 2 };

static int is_wanted(const struct ps_space *space, const struct request *request)
{
    return !request->space || strcmp(space->name, request->space) == 0 ||
           (space->root_pid && atoi(request->space) == space->root_pid);
}

static int look_for_task(struct ps_space *space, void *context)
{
    const struct request *request = context;
    int found = 0;
    for (unsigned i = 0; i < space->task_count && is_wanted(space, request); i++) {
        if (request->number && space->tasks[i].pid == request->number && !request->space)
            found |= HAS_PID;
        else if (space->tasks[i].id == request->number)
            found |= HAS_ID;
    }
    return found;
}

static void count_space(const struct ps_key *key, int found, void *context)
{
    struct request *request = context;
    if ((found & HAS_PID) || (found && request->by_pid == 0)) {
        request->key = *key;
        request->has_pid = found & HAS_PID;
    }
    request->by_pid += (found & HAS_PID) != 0;
    request->by_id += (found & HAS_ID) != 0;
}

static int dump_in_space(struct ps_space *space, void *context)
{
    const struct request *request = context;
    for (unsigned i = 0; i < space->task_count; i++) {
        const struct ps_task *task = &space->tasks[i];
        if ((request->has_pid ? task->pid : task->id) == request->number)
            return dump(space, task, request) == 0 ? 0 : 1;
    }
    return 2;
}

static void dumped(const struct ps_key *key, int value, void *context)
{
    struct request *request = context;
    (void)key;
    request->status = value == 2 ? -1 : value;
}

/* The user of the space may not be allowed to write here. So this user's file is opened before and
 * renamed after; until then the PID, and so the usual name, is not known. */
static int dump_as_user(const struct ps_query *query, struct request *request)
{
    char path[32];
    request->fd = request->file ? core_open_file(request->file) : open_temporary("core");
    if (request->fd < 0)
        return 1;
    ps_each(query);
    snprintf(path, sizeof(path), "core.%d", (int)*request->task_pid);
    if (request->status == 0)
        return core_finish_file(request->fd, request->file ? request->file : path, 0);
    core_discard_file(request->fd);
    return request->status;
}

static int run(struct request *request)
{
    struct ps_query query = {.context = request,
                             .visit = look_for_task,
                             .visited = count_space,
                             .command = "onespace core"};
    int count = ps_each(&query);
    if (count < 0) {
        ps_explain("onespace core", NULL, count);
        return 1;
    }
    if (request->by_pid == 0 && request->by_id > 1) {
        fprintf(stderr,
                "onespace core: several spaces have a task %d: name the space with --space, or "
                "give the task's process id (see `onespace ps`)\n",
                request->number);
        return 1;
    }
    if (request->by_pid + request->by_id == 0) {
        if (access_check("onespace core", request->number) == 0)
            fprintf(stderr,
                    "onespace core: no task that you may look at has the id or the process id %d: "
                    "see `onespace ps`\n",
                    request->number);
        return 1;
    }
    query.key = &request->key;
    query.visit = dump_in_space;
    query.visited = dumped;
    request->task_pid = user_shared_number();
    if (!request->task_pid)
        return fprintf(stderr, "onespace core: out of memory\n"), 1;
    request->status = request->fd = -1;
    if (request->key.user == geteuid())
        ps_each(&query);
    else
        request->status = dump_as_user(&query, request);
    if (request->status < 0)
        fprintf(stderr, "onespace core: task %d has ended meanwhile\n", request->number);
    return request->status != 0;
}

/* The kernel starts a handler of core_pattern without standard output and error: no other file must
 * get their numbers. */
static void open_standard_streams(void)
{
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_WRONLY) < 0)
            _exit(1);
}

int command_core(int argc, char **argv)
{
    static struct request request;
    static struct core_from from = {.limit = UINT64_MAX, .most = UINT64_MAX};
    static const char *crashed, *most;
    static const struct command_option options[] = {
        {"space", .text = &request.space},
        {"from", .text = &from.core},
        {"crashed", .text = &crashed},
        {"max-mib", .text = &most},
        {"output", .text = &request.file, .letter = 'o'},
        {.name = NULL}};
    char *end;
    open_standard_streams();
    if (options_parse(argc, argv, options, core_help) != 0 ||
        (crashed && core_set_crashed(&from, crashed) != 0) ||
        (most && core_set_most(&from, most) != 0))
        return 2;
    set_signals();
    if (from.core && request.file && !request.space && argc == optind) {
        from.file = request.file;
        return core_from(&from);
    }
    if (from.core || crashed || most)
        return options_refuse(argv[0], "--from needs -o, --crashed and --max-mib need --from, and "
                                       "nothing else goes with it");
    const char *word = argc - optind == 1 ? argv[optind] : "";
    long number = strtol(word, &end, 10);
    if (end == word || *end || number < 0 || number > INT_MAX)
        return options_refuse(argv[0], "give the id or the process id of one task");
    request.number = (int)number;
    return run(&request);
}
