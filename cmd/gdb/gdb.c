/* cmd/gdb/gdb.c: onespace gdb: stock gdb, attached to all members of a space. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/gdb/gdb.h"
#include "cmd/lib/options.h"
#include "cmd/lib/user.h"
#include "cmd/ps/ps.h"

enum { GDB_OLDEST = 13 };

const char gdb_help[] =
    "usage: onespace gdb SPACE | PID [-- GDB-OPTION...]\n"
    "\n"
    "Attaches gdb (13 or later) to the root and all tasks of a space, given by its name or by the "
    "PID of a member: an inferior each, with its own program and libraries. The given process is "
    "selected. All stop and continue together; when gdb ends, they continue without it.\n"
    "\n"
    "  onespace-attach  command within gdb: attach to tasks that were spawned since\n"
    "  -h, --help  print this help\n"
    "\n"
    "Exit status: that of gdb; 1 if it cannot attach; 127 if there is no gdb; 2 on a usage "
    "error.\n";

extern char **environ;
static volatile sig_atomic_t gdb_pid;

struct request {
    const char *wanted, *added; /* added: only print, with this directory for copies */
    char **options;
    int status;
    struct ps_key key; /* of the space */
};

/* ---- May it, can it ---- */

static int check_gdb(void)
{
    char line[256] = "";
    FILE *version = popen("gdb --version 2>/dev/null", "re");
    if (version) {
        if (!fgets(line, sizeof(line), version))
            line[0] = 0;
        pclose(version);
    }
    line[strcspn(line, "\n")] = 0;
    const char *last = strrchr(line, ' ');
    if (!last) {
        fprintf(stderr, "onespace gdb: there is no gdb on your PATH: install the package gdb, 13 "
                        "or later\n");
        return 127;
    }
    if (atoi(last + 1) >= GDB_OLDEST)
        return 0;
    fprintf(stderr,
            "onespace gdb: this is %s, which cannot show tasks: install gdb %d or later and put it "
            "on your PATH\n",
            line, GDB_OLDEST);
    return 1;
}

static int check_members(const struct ps_space *space)
{
    if (space->problem[0] || !space->source_pid) {
        fprintf(stderr, "onespace gdb: the space of pid %d: %s\n", space->root_pid, space->problem);
        return 1;
    }
    if (!space->root_pid) {
        fprintf(stderr,
                "onespace gdb: the root that the registry of the space names is not a process "
                "of the space: it has ended, or the registry is damaged\n");
        return 1;
    }
    for (unsigned i = 0; i < space->task_count; i++) {
        const struct ps_task *task = &space->tasks[i];
        if (gdb_is_member(task) && access_check("onespace gdb", task->pid) != 0)
            return 1;
    }
    return 0;
}

/* ---- Running it ---- */

/* Whether the root's debugger sees the tasks: see script.c. The root may have ended meanwhile. */
static void show_tasks_to_root(const struct ps_space *space, int32_t version)
{
    int fd = ps_open_memory(&space->key, space->root_pid, O_RDWR);
    uintptr_t at = LAYOUT_REGISTRY + offsetof(struct space, debug_head.version);
    if (fd < 0)
        return;
    ssize_t done = pwrite(fd, &version, sizeof(version), (off_t)at);
    (void)done;
    close(fd);
}

static void pass_on(int signal)
{
    if (gdb_pid > 0)
        kill(gdb_pid, signal);
}

/* Keyboard signals reach gdb directly. A signal that asks this command to end is passed to gdb, so
 * that it detaches first. */
static void set_signals(void)
{
    struct sigaction action = {.sa_handler = pass_on};
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static int run_gdb(char **argv)
{
    posix_spawnattr_t attr;
    sigset_t defaults;
    pid_t pid;
    int status;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGQUIT);
    set_signals();
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawnp(&pid, "gdb", NULL, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    if (error) {
        fprintf(stderr, "onespace gdb: gdb cannot be started: %s\n", strerror(error));
        return 1;
    }
    gdb_pid = pid;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    gdb_pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *walk)
{
    (void)stat, (void)type, (void)walk;
    return remove(path);
}

static int debug_space(const struct request *request, const struct ps_space *space)
{
    struct gdb_job job = {
        .space = space, .wanted = request->wanted, .directory = "/tmp/onespace-gdb.XXXXXX"};
    unsigned options = 0;
    while (request->options[options])
        options++;
    job.argv = calloc(2 * (space->task_count + 3) + options + 2, sizeof(*job.argv));
    if (!job.argv || !mkdtemp(job.directory)) {
        perror("onespace gdb: cannot make a directory in /tmp");
        free(job.argv);
        return 1;
    }
    job.argv[job.argc++] = "gdb";
    job.argv[job.argc++] = "-quiet";
    int status = 1;
    if (gdb_write_scripts(&job) == 0) {
        memcpy(job.argv + job.argc, request->options, options * sizeof(*job.argv));
        show_tasks_to_root(space, SPACE_NAMESPACES - 1);
        status = run_gdb(job.argv);
        show_tasks_to_root(space, SPACE_NAMESPACES);
    }
    nftw(job.directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    for (unsigned i = 3; i < job.argc; i += 2)
        free(job.argv[i]);
    free(job.argv);
    return status;
}

static int visit(struct ps_space *space, void *context)
{
    struct request *request = context;
    if (request->added) {
        gdb_print_added(space, request->added);
        return 0;
    }
    request->status = check_members(space);
    if (request->status == 0)
        request->status = debug_space(request, space);
    return 0;
}

static int is_there(struct ps_space *space, void *context)
{
    (void)space, (void)context;
    return 0;
}

static void remember(const struct ps_key *key, int value, void *context)
{
    struct request *request = context;
    (void)value;
    request->key = *key;
}

/* gdb reads programs, libraries and symbols that the space names: it runs as the user of the space.
 * 0, or an exit status with a message. */
static int become_user(const struct request *request)
{
    if (request->key.user == geteuid())
        return 0;
    int error = user_become(request->key.user, request->key.group);
    if (error != 0) {
        fprintf(stderr,
                "onespace gdb: the space is that of user %u, and this process cannot become that "
                "user: %s\n",
                (unsigned)request->key.user, strerror(-error));
        return 1;
    }
    setenv("HOME", "/", 1); /* not the caller's, which is closed to that user */
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("XDG_CACHE_HOME");
    return 0;
}

static int run(struct request *request)
{
    struct ps_query query = {.wanted = request->wanted,
                             .context = request,
                             .visit = is_there,
                             .visited = remember,
                             .command = "onespace gdb"};
    int count = ps_each(&query);
    if (count <= 0) {
        ps_explain("onespace gdb", request->wanted, count);
        return 1;
    }
    if (count > 1) {
        fprintf(stderr,
                "onespace gdb: %d spaces are called %s: give the process id of a root or a task "
                "(see `onespace ps`)\n",
                count, request->wanted);
        return 1;
    }
    int status = become_user(request);
    if (status != 0)
        return status;
    query.key = &request->key;
    query.visit = visit;
    query.visited = NULL;
    request->status = request->added ? 0 : 1;
    if (ps_each(&query) <= 0) {
        ps_explain("onespace gdb", request->wanted, 0);
        return 1;
    }
    return request->status;
}

int command_gdb(int argc, char **argv)
{
    struct request request = {.status = 1};
    int at = 1;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        help_print(stdout, gdb_help);
        return 0;
    }
    if (argc > 3 && strcmp(argv[1], "--added") == 0) { /* by onespace-attach, within gdb */
        request.added = argv[2];
        at = 3;
    }
    if (at >= argc || argv[at][0] == '-' || (at + 1 < argc && strcmp(argv[at + 1], "--") != 0)) {
        fprintf(stderr, "onespace gdb: give a space or a process, then -- and gdb's options if "
                        "any. Try `onespace gdb --help`.\n");
        return 2;
    }
    request.wanted = argv[at];
    request.options = at + 1 < argc ? argv + at + 2 : argv + argc;
    int status = request.added ? 0 : check_gdb();
    if (status != 0)
        return status;
    return run(&request);
}
