/* src/pip/debug.c: what is shown of the space when a member crashes, if the environment asks:
 * PIP_SHOW_MAPS=on, PIP_SHOW_PIPS=on, PIP_GDB_PATH (with PIP_GDB_COMMAND), for the signals of
 * PIP_GDB_SIGNALS (SEGV and HUP). Without these variables no handler is set at all. */
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/raw.h"
#include "state.h"

static const struct {
    const char *name;
    int number;
} known[] = {{"HUP", SIGHUP},   {"INT", SIGINT},  {"QUIT", SIGQUIT}, {"ILL", SIGILL},
             {"ABRT", SIGABRT}, {"FPE", SIGFPE},  {"SEGV", SIGSEGV}, {"PIPE", SIGPIPE},
             {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
enum { KNOWN = sizeof(known) / sizeof(known[0]) };

static int is_on(const char *name)
{
    const char *value = getenv(name);
    return value && strcasecmp(value, "on") == 0;
}

static void run(char *const argv[])
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, 2, 1);
    int error = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        pip_err_mesg("%s: cannot be run: %s", argv[0], strerror(error));
    else
        waitpid(child, NULL, 0);
}

static void show_maps(void)
{
    char text[4096];
    /* All tasks' memory; the libc's open gives this task's alone. */
    int fd = (int)raw(__NR_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    pip_info_mesg("memory map");
    for (ssize_t size; fd >= 0 && (size = read(fd, text, sizeof(text))) > 0;)
        (void)!write(2, text, (size_t)size);
    if (fd >= 0)
        close(fd);
}

static void run_gdb(const char *path)
{
    char pid[16];
    const char *commands = getenv(PIP_ENV_GDB_COMMAND);
    snprintf(pid, sizeof(pid), "%d", getpid());
    char *argv[] = {(char *)(uintptr_t)path,
                    "-q",
                    "-batch",
                    "-p",
                    pid,
                    commands ? "-x" : "-ex",
                    (char *)(uintptr_t)(commands ? commands : "bt"),
                    NULL};
    pip_info_mesg("%s looks at PID %s", path, pid);
    run(argv);
}

void pip_debug_info(void)
{
    char *pips[] = {"pips", "x", NULL};
    const char *gdb = getenv(PIP_ENV_GDB_PATH);
    if (is_on(PIP_ENV_SHOW_MAPS))
        show_maps();
    if (is_on(PIP_ENV_SHOW_PIPS))
        run(pips);
    if (gdb && *gdb)
        run_gdb(gdb);
}

/* Not strictly async-signal-safe: the process is lost anyway, and the variables ask for the reason.
 * On return the signal is raised again, with its default action. */
static void on_crash(int number)
{
    signal(number, SIG_DFL);
    pip_err_mesg("signal %d (%s)", number, strsignal(number));
    pip_debug_info();
    raise(number);
}

/* Names joined by + and -, from left to right; "all" means all that are known. */
static void parse_signals(const char *text, char wanted[KNOWN])
{
    for (char sign = '+'; *text;) {
        size_t length = strcspn(text, "+-");
        int found = length == 0;
        for (int i = 0; i < KNOWN && length; i++)
            if ((length == 3 && strncasecmp(text, "all", 3) == 0) ||
                (length == strlen(known[i].name) && strncasecmp(text, known[i].name, length) == 0))
                wanted[i] = sign == '+', found = 1;
        if (!found)
            pip_warn_mesg("%s: no signal %.*s is known here", PIP_ENV_GDB_SIGNALS, (int)length,
                          text);
        text += length;
        sign = *text;
        text += *text != 0;
    }
}

void debug_prepare(void)
{
    char wanted[KNOWN] = {0};
    const char *names = getenv(PIP_ENV_GDB_SIGNALS);
    if (!is_on(PIP_ENV_SHOW_MAPS) && !is_on(PIP_ENV_SHOW_PIPS) && !getenv(PIP_ENV_GDB_PATH))
        return;
    parse_signals(names ? names : "SEGV+HUP", wanted);
    for (int i = 0; i < KNOWN; i++) {
        struct sigaction action;
        if (wanted[i] && sigaction(known[i].number, NULL, &action) == 0 &&
            action.sa_handler == SIG_DFL) /* else the program's own counts */
            signal(known[i].number, on_crash);
    }
}

__attribute__((constructor)) static void prepare_in_task(void)
{
    if (pip_isa_task())
        debug_prepare();
}
