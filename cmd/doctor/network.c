/* cmd/doctor/network.c: whether MPI jobs of several nodes get right data from memory that is freed
 * and allocated again, as processes and as tasks. network_check.c is the program, which this
 * command compiles with the MPI library's own compiler, because binary interfaces differ. */
#include "cmd/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/lib/files.h"

/* A job of so many rounds or seconds; the rest of its time is for its start and end. */
#define ROUNDS  "10000"
#define SECONDS "60"
enum { COMPILER_TIMEOUT_MS = 60000, JOB_TIMEOUT_MS = 120000, OUTPUT_BYTES = 8 << 20 };

/* The text of network_check.c. */
extern const char network_check_source[], network_check_source_end[];
__asm__(".section .rodata.network_check, \"a\"\n"
        ".globl network_check_source, network_check_source_end\n"
        ".hidden network_check_source, network_check_source_end\n"
        "network_check_source: .incbin \"" NETWORK_CHECK_SOURCE "\"\n"
        "network_check_source_end:\n"
        ".previous\n");

/* In the current directory, which the nodes of a job have in common. */
static struct {
    char directory[PATH_MAX], source[PATH_MAX + 32], program[PATH_MAX + 32];
} check;

static const char *first_line(char *output)
{
    output[strcspn(output, "\n")] = 0;
    return output[0] ? output : "it printed nothing";
}

/* ---- The program ---- */

static int write_source(const char *path)
{
    const char *at = network_check_source;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    while (at < network_check_source_end) {
        ssize_t count = write(fd, at, (size_t)(network_check_source_end - at));
        if (count < 0 && errno != EINTR)
            break;
        at += count > 0 ? count : 0;
    }
    int result = at < network_check_source_end ? -errno : 0;
    return close(fd) == 0 || result < 0 ? result : -errno;
}

static void remove_program(void)
{
    unlink(check.source);
    unlink(check.program);
    rmdir(check.directory);
}

/* 0, or -1 with a line of the report. */
static int compile_program(void)
{
    static const char subject[] = "network check";
    char output[4096], current[PATH_MAX - 32];
    const char *compiler = getenv("MPICC") ? getenv("MPICC") : "mpicc";
    char *argv[] = {"sh",
                    "-c",
                    (char *)"exec $1 -O1 -o \"$2\" \"$3\"",
                    "sh",
                    (char *)compiler,
                    check.program,
                    check.source,
                    NULL};
    check.directory[0] = 0;
    if (getcwd(current, sizeof(current)))
        snprintf(check.directory, sizeof(check.directory), "%s/onespace-network-XXXXXX", current);
    if (!check.directory[0] || !mkdtemp(check.directory)) {
        doctor_say(DOCTOR_WRONG, subject,
                   "Start it in a directory that you can write to and all nodes have.",
                   "no directory can be made here: %s", strerror(errno));
        return -1;
    }
    doctor_on_interrupt(remove_program);
    snprintf(check.source, sizeof(check.source), "%s/network_check.c", check.directory);
    snprintf(check.program, sizeof(check.program), "%s/network_check", check.directory);
    int error = write_source(check.source);
    int status =
        error < 0 ? error : doctor_command(argv, output, sizeof(output), COMPILER_TIMEOUT_MS);
    if (status == 0)
        return 0;
    if (error < 0)
        doctor_say(DOCTOR_WRONG, subject,
                   "Start it in a directory that you can write to and all nodes have.", "%s: %s",
                   check.source, strerror(-error));
    else
        doctor_say(DOCTOR_WRONG, subject,
                   "Load the module of your MPI library, or set MPICC to its compiler.",
                   "%s does not compile an MPI program: %s", compiler, first_line(output));
    remove_program();
    return -1;
}

/* ---- The job ---- */

/* The program's output. */
struct job_result {
    int rounds, nodes, ranks_per_node; /* by its first rank; nodes 0: not printed */
    int ranks;                         /* that have printed what was wrong, */
    long wrong;                        /* together so many bytes */
};

static struct job_result read_result(const char *output)
{
    struct job_result result = {0};
    for (const char *line = output; line; line = strchr(line, '\n')) {
        int rank, rounds, nodes, each, length = 0;
        long wrong;
        line += *line == '\n';
        if (sscanf(line, "rank %d: %ld wrong%n", &rank, &wrong, &length) == 2 && length) {
            result.ranks++;
            result.wrong += wrong;
        } else if (sscanf(line, "%d rounds, %d nodes, %d ranks on each", &rounds, &nodes, &each) ==
                   3) {
            result.rounds = rounds;
            result.nodes = nodes;
            result.ranks_per_node = each;
        }
    }
    return result;
}

/* Why a job failed: what the program says, or else the launcher. Changes the output. */
static const char *reason_of(char *output)
{
    static const char own[] = "network_check: ";
    char *said = strstr(output, own);
    return said ? first_line(said + strlen(own)) : doctor_reason(output);
}

/* Returns whether the job ran to its end. */
static int say_result(const char *subject, int status, char *output, const char *launcher)
{
    static const char fix[] = "See whether the command works by hand: two nodes or more, as many "
                              "ranks on each.";
    const struct job_result job = read_result(output);
    int is_complete = job.nodes > 0 && job.ranks == job.nodes * job.ranks_per_node;
    if (job.wrong)
        doctor_say(DOCTOR_WRONG, subject,
                   "See docs/networks.md; if only tasks are concerned, report it to the onespace "
                   "project.",
                   "%ld bytes arrived wrong in memory that was freed and allocated again",
                   job.wrong);
    else if (is_complete && status == -ETIMEDOUT)
        doctor_say(DOCTOR_WARNING, subject, "See whether MPI_Finalize ends by hand.",
                   "%d ranks on %d nodes, %d buffers and windows each: every byte was right, but "
                   "the job did not end in %d s",
                   job.ranks, job.nodes, job.rounds, JOB_TIMEOUT_MS / 1000);
    else if (is_complete && status == 0)
        doctor_say(DOCTOR_GOOD, subject, NULL,
                   "%d ranks on %d nodes, %d buffers and windows each: every byte was right",
                   job.ranks, job.nodes, job.rounds);
    else
        doctor_say(DOCTOR_WRONG, subject, fix, "%s: %s", launcher,
                   status == -ETIMEDOUT ? "no end in two minutes" : reason_of(output));
    return is_complete;
}

/* prefix: the words before the program. Returns whether the job ran to its end. */
static int run_job(const char *launcher, const char *subject, const char *const prefix[2])
{
    static char output[OUTPUT_BYTES];
    char script[PATH_MAX];
    char *argv[] = {"sh", "-c", script, "sh", NULL, NULL, NULL, NULL, NULL, NULL};
    int count = 4;
    if (snprintf(script, sizeof(script), "exec %s \"$@\"", launcher) >= (int)sizeof(script)) {
        doctor_say(DOCTOR_WRONG, subject, "Shorten it.", "the launcher's command line is too long");
        return 0;
    }
    for (int i = 0; i < 2 && prefix[i]; i++)
        argv[count++] = (char *)prefix[i];
    argv[count++] = (char *)check.program;
    argv[count++] = (char *)ROUNDS;
    argv[count++] = (char *)SECONDS;
    int status = doctor_command(argv, output, sizeof(output), JOB_TIMEOUT_MS);
    return say_result(subject, status, output, launcher);
}

void doctor_network(const char *launcher)
{
    const char *const processes[2] = {NULL, NULL}, *const tasks[2] = {file_self(), "run"};
    if (compile_program() != 0)
        return;
    if (run_job(launcher, "network, processes", processes))
        (void)run_job(launcher, "network, tasks", tasks);
    remove_program();
}
