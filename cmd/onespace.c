/* cmd/onespace.c: the command `onespace`, which calls a subcommand. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include "cmd/lib/options.h"
#include "cmd/lib/output.h"
#include "cmd/run/run.h"
#include "launch/launch.h"
#include "onespace.h"

const struct command commands[] = {
    {"run", command_run, "run programs, or MPI ranks, as tasks of one address space", run_help},
    {"mpiexec", command_mpiexec, "start MPI ranks as tasks, by the launcher of their MPI",
     mpiexec_help},
    {"ps", command_ps, "list spaces and their tasks", ps_help},
    {"map", command_map, "show a space's memory by owner and kind, as table or picture", map_help},
    {"check", command_check, "say whether programs can be tasks, and if not, why", check_help},
    {"doctor", command_doctor, "check this machine and print fixes", doctor_help},
    {"clean", command_clean, "list or remove what killed MPI jobs have left behind", clean_help},
    {"gdb", command_gdb, "attach gdb to all members of a space", gdb_help},
    {"core", command_core, "write a core of one task, for a debugger", core_help},
    {"bench", command_bench, "measure what your MPI gains here", bench_help},
    {"report", command_report, "make a page of benchmark results", report_help},
    {"windows", command_windows, "list, check and repair the versions of windows on storage",
     windows_help},
    {"insitu", command_insitu, "watch the steps of a channel, or write them to files", insitu_help},
    {"completion", command_completion, "print completions for bash, zsh or fish", completion_help},
    {NULL, NULL, NULL, NULL},
};

static void print_usage(FILE *out)
{
    fprintf(out, "usage: onespace COMMAND [ARGUMENT...]\n\n");
    for (const struct command *command = commands; command->name; command++)
        fprintf(out, "  %-10s %s\n", command->name, command->purpose);
    fprintf(out, "\nSee `onespace help COMMAND`. `onespace --version` prints the version.\n");
}

/* Started by shims, not by users. */
static int run_host(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "onespace host: started by `onespace run`, not by hand\n");
        return 2;
    }
    return host_serve(3, argv[1], argv[2], atoi(argv[3]), atoi(argv[4]));
}

/* The main stack may be as small as `ulimit -s` and holds arguments and environment, too. A
 * subcommand then runs on a stack of its own. */
enum { MAIN_STACK_MIN_BYTES = 1 << 20, OWN_STACK_BYTES = 2 << 20 };

static struct {
    int (*function)(int, char **);
    int argc;
    char **argv;
    int status;
} call;

static void make_call(void)
{
    call.status = call.function(call.argc, call.argv);
}

static int run_on_own_stack(void)
{
    static ucontext_t caller, callee;
    void *stack = mmap(NULL, OWN_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || getcontext(&callee) != 0)
        return EXIT_FAILURE;
    callee.uc_stack = (stack_t){.ss_sp = stack, .ss_size = OWN_STACK_BYTES};
    callee.uc_link = &caller;
    makecontext(&callee, make_call, 0);
    if (swapcontext(&caller, &callee) != 0)
        return EXIT_FAILURE;
    return call.status;
}

static int run(int (*function)(int, char **), int argc, char **argv)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= MAIN_STACK_MIN_BYTES)
        return function(argc, argv);
    call.function = function;
    call.argc = argc;
    call.argv = argv;
    return run_on_own_stack();
}

static const char *name_at(const void *unused, int index)
{
    (void)unused;
    return commands[index].name;
}

/* The command that does what users of another program want, or the one with the most similar name;
 * NULL: there is none. */
static const char *command_meant_by(const char *name)
{
    if (run_is_launcher(name))
        return "mpiexec";
    return help_most_similar(name, name_at, NULL);
}

/* NULL with a message. */
static const struct command *find_command(const char *name)
{
    for (const struct command *command = commands; command->name; command++)
        if (strcmp(name, command->name) == 0)
            return command;
    const char *like = command_meant_by(name);
    fprintf(stderr, "onespace: no command '%s'", name);
    if (like)
        fprintf(stderr, "; did you mean %s?", like);
    fprintf(stderr, "\n\n");
    print_usage(stderr);
    return NULL;
}

static int print_help(const char *name)
{
    const struct command *command = name ? find_command(name) : NULL;
    if (name && !command)
        return 2;
    if (command)
        help_print(stdout, command->help);
    else
        print_usage(stdout);
    return output_check("onespace help");
}

/* A tool that is preloaded for the program is loaded into this process, too. Tools for MPI programs
 * crash at the exit of a process that has not used MPI, and the launcher or the shell would take
 * that for the status of the program. So skip atexit handlers and destructors, which only free
 * memory. */
static int exit_without_tools(int status)
{
    const char *preloaded = getenv("LD_PRELOAD");
    if (!preloaded || !*preloaded)
        return status;
    fflush(NULL);
    _exit(status);
}

/* The parent may have ignored SIGCHLD. Then the end of a child could not be waited for. Tasks
 * inherit what the parent has left, as processes would. */
static void make_children_waitable(const struct command *command)
{
    if (command->function != command_run)
        signal(SIGCHLD, SIG_DFL);
}

/* Their standard output is also that of the programs. */
static int runs_programs(const struct command *command)
{
    return command->function == command_run || command->function == command_mpiexec;
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return print_help(argv[2]);
    if (strcmp(argv[1], "--version") == 0) {
        printf("onespace %s\n", onespace_version());
        return output_check("onespace");
    }
    if (strcmp(argv[1], "host") == 0)
        return run(run_host, argc - 1, argv + 1);
    const struct command *command = find_command(argv[1]);
    if (!command)
        return 2;
    make_children_waitable(command);
    static char name[32]; /* in messages, getopt's too */
    snprintf(name, sizeof(name), "onespace %s", command->name);
    argv[1] = name;
    int status = run(command->function, argc - 1, argv + 1);
    return status == 0 && !runs_programs(command) ? output_check(name) : status;
}

int main(int argc, char **argv)
{
    return exit_without_tools(run_command(argc, argv));
}
