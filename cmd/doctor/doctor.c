/* cmd/doctor/doctor.c: onespace doctor: checks this machine and says what to fix. */
#include "cmd/doctor/doctor.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/lib/options.h"
#include "cmd/lib/output.h"

/* ---- Checks in a child process, and files ---- */

enum { LDCONFIG_TIMEOUT_MS = 20000 };

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads until the end of the pipe, and discards what does not fit. 0 or -ETIMEDOUT. */
static int read_answer(int in, char *answer, size_t size, long deadline)
{
    char rest[512];
    size_t used = 0;
    for (;;) {
        struct pollfd wanted = {.fd = in, .events = POLLIN};
        long left = deadline - now_ms();
        int ready = left > 0 ? poll(&wanted, 1, (int)left) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return -ETIMEDOUT;
        ssize_t count = used + 1 < size ? read(in, answer + used, size - 1 - used)
                                        : read(in, rest, sizeof(rest));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return 0;
        if (used + 1 < size)
            used += (size_t)count;
        answer[used] = 0;
    }
}

/* The process group of the running child, or 0. Written by the only thread, read by its signal
 * handler. */
static volatile sig_atomic_t child_group;
static void (*interrupted)(void);

static void end_by_signal(int number)
{
    if (child_group)
        kill(-child_group, SIGTERM);
    if (interrupted)
        interrupted();
    signal(number, SIG_DFL);
    raise(number);
}

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

void doctor_on_interrupt(void (*function)(void))
{
    interrupted = function;
    for (size_t i = 0; i < sizeof(ending_signals) / sizeof(ending_signals[0]); i++)
        if (signal(ending_signals[i], end_by_signal) == SIG_IGN)
            signal(ending_signals[i], SIG_IGN); /* nohup */
}

static void enter_child(int out, void (*function)(int, void *), void *context)
{
    struct rlimit no_core = {0, 0};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    setpgid(0, 0); /* so that its own children can be killed with it */
    setrlimit(RLIMIT_CORE, &no_core);
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
    function(out, context);
    _exit(0);
}

/* A launcher ends its job at SIGTERM. */
static void end_group(pid_t group)
{
    enum { GRACE_MS = 3000, INTERVAL_MS = 10 };
    siginfo_t info;
    kill(-group, SIGTERM);
    for (int waited = 0; waited < GRACE_MS; waited += INTERVAL_MS) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)group, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            break;
        usleep(INTERVAL_MS * 1000);
    }
    kill(-group, SIGKILL);
}

int doctor_child(void (*function)(int, void *), void *context, char *answer, size_t size,
                 int timeout_ms)
{
    int ends[2], status;
    sigset_t all, mask;
    answer[0] = 0;
    fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    sigfillset(&all); /* until end_by_signal knows the child */
    sigprocmask(SIG_SETMASK, &all, &mask);
    pid_t child = fork();
    int error = errno;
    if (child == 0) {
        for (size_t i = 0; i < sizeof(ending_signals) / sizeof(ending_signals[0]); i++)
            signal(ending_signals[i], SIG_DFL);
        sigprocmask(SIG_SETMASK, &mask, NULL);
        enter_child(ends[1], function, context);
    }
    if (child > 0) {
        setpgid(child, child); /* in both processes: either may be first */
        child_group = child;
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (child < 0) {
        close(ends[0]);
        close(ends[1]);
        return -error;
    }
    close(ends[1]);
    int result = read_answer(ends[0], answer, size, now_ms() + timeout_ms);
    close(ends[0]);
    if (result < 0)
        end_group(child);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    child_group = 0;
    return result < 0 ? result : status;
}

static void run_command(int out, void *context)
{
    char *const *argv = context;
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execvp(argv[0], argv);
    _exit(127);
}

int doctor_command(char *const argv[], char *output, size_t size, int timeout_ms)
{
    return doctor_child(run_command, (void *)argv, output, size, timeout_ms);
}

const char *doctor_reason(char *output)
{
    const char *found = "it printed nothing";
    char *save;
    for (char *line = strtok_r(output, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (strpbrk(line, "abcdefghijklmnopqrstuvwxyz"))
            found = line;
    return found;
}

void doctor_each_library(int (*visit)(const char *name, const char *path, void *context),
                         void *context)
{
    static char cache[1 << 20];
    char *argv[] = {"/sbin/ldconfig", "-p", NULL}, *save;
    doctor_command(argv, cache, sizeof(cache), LDCONFIG_TIMEOUT_MS);
    for (char *line = strtok_r(cache, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *path = strstr(line, "=> ");
        if (path && visit(line + strspn(line, " \t"), path + 3, context))
            return;
    }
}

/* ---- The report ---- */

const char doctor_help[] =
    "usage: onespace doctor [--json] [--ranks N | --network LAUNCHER]\n"
    "       onespace doctor [--json] --job [--launcher LAUNCHER]\n"
    "\n"
    "Checks the kernel, the limits, the container, onespace itself, the MPI libraries and the "
    "file system of the current directory, and runs a few tasks. Prints a line for each "
    "finding: good, warning or wrong, with the fix. Leaves nothing behind.\n"
    "\n"
    "      --json  print an array of {status, subject, finding, fix}\n"
    "      --ranks N  check only whether N ranks of a job fit on this node, and what to raise\n"
    "      --network LAUNCHER  check only whether jobs of several nodes, as processes and as "
    "tasks, get right data from memory that is freed and allocated again. LAUNCHER is a command "
    "line in one word: \"mpiexec -hosts a,b -ppn 2 -n 4\". Compiles an MPI program in the current "
    "directory, which all nodes must have, with mpicc or $MPICC\n"
    "      --job  make all checks on each node of the batch system's allocation in which this "
    "command runs. What is the same on all nodes is printed once, other findings with the nodes' "
    "names\n"
    "      --launcher LAUNCHER  start the checks of --job by this command line, which starts one "
    "process on each node: \"mpiexec -hosts a,b -ppn 1\" (default: srun in a job of Slurm, mpiexec "
    "with the nodes of PBS, LSF, Grid Engine and OAR)\n"
    "  -h, --help  print this help\n"
    "\n"
    "Exit status: 0 if nothing is wrong, 1 if something is, 2 on a usage error.\n";

enum { SUBJECT_AT = 9, FINDING_AT = 28 };

static const char *const status_names[] = {"good", "warning", "wrong"};
static struct output_json json = {NULL, 0, 0};
static int is_node; /* the findings are records for `onespace doctor --job` */
static unsigned width, counts[3];

enum doctor_status doctor_status_from(const char *name)
{
    int status = DOCTOR_GOOD;
    while (status < DOCTOR_WRONG && strcmp(name, status_names[status]) != 0)
        status++;
    return (enum doctor_status)status;
}

static void write_line(enum doctor_status status, const char *subject, const char *finding,
                       const char *fix)
{
    json_open(&json, NULL, '{');
    json_text(&json, "status", status_names[status]);
    json_text(&json, "subject", subject);
    json_text(&json, "finding", finding);
    json_text(&json, "fix", fix);
    json_close(&json, '}');
}

/* "; " and the fix as the rest of a sentence: without its capital, unless it starts with a name,
 * and without its full stop. */
static void append_fix(char *text, size_t size, const char *fix)
{
    size_t length = strlen(text);
    snprintf(text + length, size - length, "; %s", fix);
    char *first = text + length + 2, *last = text + strlen(text) - 1;
    if (length + 3 < size && islower((unsigned char)first[1]) && strncmp(fix, "Linux", 5) != 0)
        *first = (char)tolower((unsigned char)*first);
    if (*last == '.')
        *last = 0;
}

void doctor_say(enum doctor_status status, const char *subject, const char *fix,
                const char *finding, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, finding);
    vsnprintf(text, sizeof(text), finding, arguments);
    va_end(arguments);
    counts[status]++;
    if (is_node) {
        job_add_finding(status_names[status], subject, text, fix);
        return;
    }
    if (json.out) {
        write_line(status, subject, text, fix);
        return;
    }
    if (fix)
        append_fix(text, sizeof(text), fix);
    printf("%-*s%-*s ", SUBJECT_AT, status_names[status], FINDING_AT - SUBJECT_AT - 1, subject);
    output_wrapped(stdout, width, FINDING_AT, FINDING_AT, output_clean(text));
    putchar('\n');
    fflush(stdout); /* some of the next checks are slow */
}

/* A number of ranks, or 0. */
static unsigned ranks_from(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits < 7 && !text[digits] ? (unsigned)atoi(text) : 0;
}

static void check_all(void)
{
    static void (*const parts[])(void) = {
        doctor_kernel, doctor_memory, doctor_limits, doctor_calls,   doctor_install,
        doctor_trial,  doctor_xpmem,  doctor_mpi,    doctor_storage, doctor_settings};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        parts[i]();
}

/* The checks that the options ask for. */
struct request {
    unsigned ranks;      /* or 0 */
    const char *network; /* or NULL */
    int is_job;
    const char *launcher; /* or NULL */
};

static int report(const struct request *request)
{
    width = output_width(stdout);
    doctor_on_interrupt(NULL); /* ends the check that runs in a child */
    if (json.out)
        json_open(&json, NULL, '[');
    if (request->ranks)
        doctor_ranks(request->ranks);
    else if (request->network)
        doctor_network(request->network);
    else if (request->is_job)
        doctor_job(request->launcher);
    else
        check_all();
    if (is_node) {
        job_write_findings();
        return 0; /* a launcher ends the whole job if one of its processes fails */
    }
    if (json.out)
        json_close(&json, ']');
    else
        printf("\n%u good, %u to look at, %u wrong\n", counts[DOCTOR_GOOD], counts[DOCTOR_WARNING],
               counts[DOCTOR_WRONG]);
    return counts[DOCTOR_WRONG] ? 1 : 0;
}

static int is_blank(const char *text)
{
    return !text[strspn(text, " \t")];
}

int command_doctor(int argc, char **argv)
{
    static int is_json;
    static const char *text;
    static struct request request;
    static const struct command_option options[] = {{"json", .flag = &is_json},
                                                    {"ranks", .text = &text},
                                                    {"network", .text = &request.network},
                                                    {"job", .flag = &request.is_job},
                                                    {"launcher", .text = &request.launcher},
                                                    {"as-node", .flag = &is_node},
                                                    {.name = NULL}};
    if (options_parse(argc, argv, options, doctor_help) != 0)
        return 2;
    request.ranks = text ? ranks_from(text) : 0;
    if (text && !request.ranks) {
        fprintf(stderr, "onespace doctor: --ranks %s: not a number of ranks\n", text);
        return 2;
    }
    if (optind < argc)
        return options_refuse(argv[0], "takes no argument");
    if (!!text + !!request.network + request.is_job > 1)
        return options_refuse(argv[0],
                              "--ranks, --network and --job are different checks: give one");
    if (request.launcher && !request.is_job)
        return options_refuse(argv[0], "--launcher is for --job");
    if ((request.network && is_blank(request.network)) ||
        (request.launcher && is_blank(request.launcher)))
        return options_refuse(argv[0],
                              "--network and --launcher: name the launcher and its options");
    json.out = is_json ? stdout : NULL;
    return report(&request);
}
