/* src/pip/messages.c: messages and debugging output: pip_*_mesg, the functions of pip/pip_util.h,
 * and the report of a crash.
 *
 * The environment selects the report: PIP_SHOW_MAPS=on, PIP_SHOW_PIPS=on, PIP_GDB_PATH (with
 * PIP_GDB_COMMAND), for the signals of PIP_GDB_SIGNALS (default SEGV and HUP). Without these
 * variables no handler is installed. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <pip/pip_util.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/raw.h"
#include "state.h"

/* ---- Messages: one line, one write ---- */

size_t pip_idstr(char *buffer, size_t size)
{
    struct record *self = state_self();
    char task[16] = "-";
    if (self)
        snprintf(task, sizeof(task), self->pipid < 0 ? "R" : "T%d", self->pipid);
    int length = snprintf(buffer, size, "[%d(%s)]", pip_gettid(), task);
    return length < 0 || (size_t)length >= size ? 0 : size - (size_t)length;
}

static int is_quiet(void)
{
    struct state *state = state_mine();
    return state ? state->quiet : getenv(PIP_ENV_QUIET) != NULL;
}

__attribute__((format(printf, 3, 0))) static void print_message(FILE *file, const char *kind,
                                                                const char *format, va_list list)
{
    char line[1536], who[64];
    if (is_quiet())
        return;
    pip_idstr(who, sizeof(who));
    int length = snprintf(line, sizeof(line), "PiP-%s%s ", kind, who);
    length += vsnprintf(line + length, sizeof(line) - (size_t)length - 1, format, list);
    if (length > (int)sizeof(line) - 2)
        length = (int)sizeof(line) - 2;
    line[length++] = '\n';
    fflush(file);
    (void)!write(fileno(file), line, (size_t)length);
}

void pip_info_fmesg(FILE *file, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    print_message(file ? file : stderr, "INFO", format, list);
    va_end(list);
}

#define DEFINE_MESSAGE(name, kind)                                                                 \
    void name(const char *format, ...)                                                             \
    {                                                                                              \
        va_list list;                                                                              \
        va_start(list, format);                                                                    \
        print_message(stderr, kind, format, list);                                                 \
        va_end(list);                                                                              \
    }
DEFINE_MESSAGE(pip_info_mesg, "INFO")
DEFINE_MESSAGE(pip_warn_mesg, "WARN")
DEFINE_MESSAGE(pip_err_mesg, "ERR")

/* ---- The functions of pip/pip_util.h ---- */

static void copy_to_stderr(int fd)
{
    char text[4096];
    ssize_t size = 0;
    while (fd >= 0 && (size = read(fd, text, sizeof(text))) > 0)
        if (write(STDERR_FILENO, text, (size_t)size) < 0)
            break;
    if (fd >= 0)
        close(fd);
}

void pip_print_maps(void)
{
    copy_to_stderr(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
}

void pip_print_fd(FILE *file, int fd)
{
    char path[64], target[4096];
    int flags = fcntl(fd, F_GETFD);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    if (flags < 0 || length < 0)
        return;
    target[length] = 0;
    fprintf(file, "%d %s -> %s%s\n", (int)getpid(), path, target,
            flags & FD_CLOEXEC ? " [COE]" : "");
}

void pip_print_fds(FILE *file)
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    if (!directory)
        return;
    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(directory))
            pip_print_fd(file, atoi(entry->d_name));
    closedir(directory);
}

void pip_check_addr(char *tag, void *address)
{
    char own_tag[32], *line = NULL;
    size_t size = 0;
    struct proc_mapping mapping;
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    snprintf(own_tag, sizeof(own_tag), "%d", (int)getpid());
    while (maps && !found && getline(&line, &size, maps) > 0)
        found = proc_parse_mapping(line, &mapping) && mapping.start <= (uintptr_t)address &&
                (uintptr_t)address < mapping.end;
    fprintf(stderr, "%s %p: %s", tag ? tag : own_tag, address, found ? line : "not mapped\n");
    free(line);
    if (maps)
        fclose(maps);
}

static int print_library(struct dl_phdr_info *info, size_t size, void *file)
{
    (void)size;
    fprintf(file, "%d %#" PRIxPTR " %s\n", (int)getpid(), (uintptr_t)info->dlpi_addr,
            info->dlpi_name[0] ? info->dlpi_name : "(the program)");
    return 0;
}

void pip_print_loaded_solibs(FILE *file)
{
    dl_iterate_phdr(print_library, file ? file : stderr);
}

void pip_print_dsos(void)
{
    pip_print_loaded_solibs(stderr);
}

/* ---- The report of a crash ---- */

static const struct {
    const char *name;
    int number;
} signals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},  {"QUIT", SIGQUIT}, {"ILL", SIGILL},
               {"ABRT", SIGABRT}, {"FPE", SIGFPE},  {"SEGV", SIGSEGV}, {"PIPE", SIGPIPE},
               {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };

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
        pip_err_mesg("cannot run %s: %s", argv[0], strerror(error));
    else
        waitpid(child, NULL, 0);
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
    pip_info_mesg("running %s on PID %s", path, pid);
    run(argv);
}

void pip_debug_info(void)
{
    char *pips[] = {"pips", "x", NULL};
    const char *gdb = getenv(PIP_ENV_GDB_PATH);
    if (is_on(PIP_ENV_SHOW_MAPS)) {
        pip_info_mesg("memory map");
        /* By a raw system call: the libc's open shows a task only its own mappings. */
        copy_to_stderr((int)raw(__NR_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC));
    }
    if (is_on(PIP_ENV_SHOW_PIPS))
        run(pips);
    if (gdb && *gdb)
        run_gdb(gdb);
}

/* Not async-signal-safe: the process is about to die, and the user asks for the reason. The signal
 * is raised again with its default action. */
static void on_crash(int number)
{
    signal(number, SIG_DFL);
    pip_err_mesg("signal %d (%s)", number, strsignal(number));
    pip_debug_info();
    raise(number);
}

/* Parses names joined by + and -, from left to right; "all" means every signal of the table. */
static void parse_signals(const char *text, char wanted[SIGNALS])
{
    for (char sign = '+'; *text;) {
        size_t length = strcspn(text, "+-");
        int found = length == 0;
        for (int i = 0; i < SIGNALS && length; i++)
            if ((length == 3 && strncasecmp(text, "all", 3) == 0) ||
                (length == strlen(signals[i].name) &&
                 strncasecmp(text, signals[i].name, length) == 0))
                wanted[i] = sign == '+', found = 1;
        if (!found)
            pip_warn_mesg("%s: unknown signal %.*s", PIP_ENV_GDB_SIGNALS, (int)length, text);
        text += length;
        sign = *text;
        text += *text != 0;
    }
}

void debug_install_handlers(void)
{
    char wanted[SIGNALS] = {0};
    const char *names = getenv(PIP_ENV_GDB_SIGNALS);
    if (!is_on(PIP_ENV_SHOW_MAPS) && !is_on(PIP_ENV_SHOW_PIPS) && !getenv(PIP_ENV_GDB_PATH))
        return;
    parse_signals(names ? names : "SEGV+HUP", wanted);
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction action;
        if (wanted[i] && sigaction(signals[i].number, NULL, &action) == 0 &&
            action.sa_handler == SIG_DFL) /* a handler of the program stays */
            signal(signals[i].number, on_crash);
    }
}

__attribute__((constructor)) static void install_handlers_in_task(void)
{
    if (pip_isa_task())
        debug_install_handlers();
}
