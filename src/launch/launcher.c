/* src/launch/launcher.c: which launcher started this process, and the name of its space.
 *
 * The launcher's daemon on this node is an ancestor of every rank, even behind wrapper scripts and
 * env(1), and two daemons on one machine count as two nodes. So its PID and start time identify the
 * space. */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/proc.h"
#include "base/raw.h"

static const struct {
    const char *variable, *kind;
} rank_variables[] = {
    {"PMIX_RANK", "pmix"},   {"OMPI_COMM_WORLD_RANK", "openmpi"},
    {"PMI_RANK", "hydra"},   {"PMI_ID", "hydra"},
    {"PMI_FD", "hydra"},     {"SLURM_STEP_ID", "slurm"},
    {"PALS_RANKID", "pals"}, {"ALPS_APP_PE", "alps"},
};

/* The kernel truncates names to 15 bytes. */
static const char *const daemons[] = {
    "hydra_pmi_proxy", "prted",          "prterun",         "orted",      "orterun",
    "mpirun",          "mpirun.openmpi", "mpiexec.openmpi", "slurmstepd", "mpiexec.gforker",
    "hydra_bstrap_pr", "pals_daemon",    "palsd",           "apinit",     "pbs_mom",
    "mpiexec",         "prte",           "flux-shell",
};

static int is_daemon(const char *name)
{
    for (size_t i = 0; i < sizeof(daemons) / sizeof(daemons[0]); i++)
        if (strcmp(name, daemons[i]) == 0)
            return 1;
    return 0;
}

/* Finds the nearest ancestor that is a launcher's daemon: its pid, or 0. */
static int find_daemon(struct proc_stat *found)
{
    int pid = getppid();
    for (int depth = 0; pid > 1 && depth < 64; depth++) {
        if (proc_read_stat(pid, found) != 0)
            return 0;
        if (is_daemon(found->name))
            return pid;
        pid = found->parent;
    }
    return 0;
}

/* Rank and count on the node must be those of one launcher: a launcher that was started within
 * another one's job leaves the outer one's variables in place. */
static const struct {
    const char *rank, *size; /* size NULL: Slurm's list */
} local_variables[] = {
    {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"},
    {"SLURM_LOCALID", NULL},
};

/* A number of up to nine digits, or -1. */
static int number_from(const char *variable)
{
    const char *value = getenv(variable);
    size_t digits = value ? strspn(value, "0123456789") : 0;
    return digits > 0 && digits < 10 && !value[digits] ? atoi(value) : -1;
}

/* Parses a number of digits at *at, and moves *at past it: up to INT_MAX, or -1. */
static int take_number(const char **at)
{
    char *end;
    if (**at < '0' || **at > '9')
        return -1;
    errno = 0;
    long number = strtol(*at, &end, 10);
    *at = end;
    return errno || number > INT_MAX ? -1 : (int)number;
}

int launcher_slurm_tasks(const char *list, int node)
{
    for (int left = node; left >= 0;) {
        int nodes = 1, tasks = take_number(&list);
        if (strncmp(list, "(x", 2) == 0) {
            list += 2;
            nodes = take_number(&list);
            if (*list++ != ')')
                return -1;
        }
        if (tasks < 0 || nodes <= 0 || (*list && *list != ','))
            return -1;
        if (left < nodes)
            return tasks;
        left -= nodes;
        if (!*list++)
            return -1;
    }
    return -1;
}

/* Makes a name from a text that may be long or contain any character. */
static void name_from_text(struct launcher *launcher, const char *prefix, const char *text,
                           const char *more)
{
    uint64_t hash = hash_text(HASH_SEED, text);
    if (more)
        hash = hash_text(hash, more);
    snprintf(launcher->space, sizeof(launcher->space), "%s-%016" PRIx64, prefix, hash);
}

/* The daemons of a DVM serve many jobs, even at the same time. */
static void add_namespace(struct launcher *launcher, const char *job)
{
    size_t length = strlen(launcher->space), found = strlen(launcher->found_by);
    if (!job)
        return;
    snprintf(launcher->space + length, sizeof(launcher->space) - length, "-%08" PRIx32,
             (uint32_t)hash_text(HASH_SEED, job));
    snprintf(launcher->found_by + found, sizeof(launcher->found_by) - found, " and PMIX_NAMESPACE");
}

static void name_space(struct launcher *launcher)
{
    struct proc_stat daemon;
    const char *job;
    launcher->daemon = find_daemon(&daemon);
    if (launcher->daemon) {
        snprintf(launcher->space, sizeof(launcher->space), "%.15s-%d-%" PRIu64, daemon.name,
                 launcher->daemon, daemon.start_ticks);
        snprintf(launcher->found_by, sizeof(launcher->found_by), "ancestor %s (pid %d)",
                 daemon.name, launcher->daemon);
        add_namespace(launcher, getenv("PMIX_NAMESPACE"));
    } else if ((job = getenv("PMIX_NAMESPACE"))) {
        name_from_text(launcher, "pmix", job, NULL);
        snprintf(launcher->found_by, sizeof(launcher->found_by), "PMIX_NAMESPACE");
    } else if ((job = getenv("SLURM_JOB_ID"))) {
        name_from_text(launcher, "slurm", job, getenv("SLURM_STEP_ID"));
        snprintf(launcher->found_by, sizeof(launcher->found_by), "SLURM_JOB_ID and SLURM_STEP_ID");
    } else if (proc_read_stat(getppid(), &daemon) == 0) {
        snprintf(launcher->space, sizeof(launcher->space), "parent-%d-%" PRIu64, getppid(),
                 daemon.start_ticks);
        snprintf(launcher->found_by, sizeof(launcher->found_by), "parent %s (pid %d)", daemon.name,
                 getppid());
    }
}

static void find_local_numbers(struct launcher *launcher)
{
    launcher->local_rank = launcher->local_size = -1;
    for (size_t i = 0; i < sizeof(local_variables) / sizeof(local_variables[0]); i++) {
        const char *size = local_variables[i].size;
        launcher->local_rank = number_from(local_variables[i].rank);
        if (launcher->local_rank < 0)
            continue;
        launcher->rank_variable = local_variables[i].rank;
        launcher->size_variable = size ? size : "SLURM_STEP_TASKS_PER_NODE";
        const char *list = size ? NULL : getenv("SLURM_STEP_TASKS_PER_NODE");
        launcher->local_size = size   ? number_from(size)
                               : list ? launcher_slurm_tasks(list, number_from("SLURM_NODEID"))
                                      : -1;
        return;
    }
}

void launcher_find(struct launcher *launcher)
{
    memset(launcher, 0, sizeof(*launcher));
    find_local_numbers(launcher);
    for (size_t i = 0; i < sizeof(rank_variables) / sizeof(rank_variables[0]); i++) {
        if (!getenv(rank_variables[i].variable))
            continue;
        launcher->is_rank = 1;
        launcher->kind = rank_variables[i].kind;
        name_space(launcher);
        return;
    }
}

/* ---- What shims and standalone runs have in common ---- */

void set_task_numbers(int number, int ntasks)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    setenv("ONESPACE_TASK_ID", text, 1);
    snprintf(text, sizeof(text), "%d", ntasks);
    setenv("ONESPACE_NTASKS", text, 1);
}

void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

void open_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
            return;
}

void become_server(const char *name, int fd, pid_t root)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_DFL); /* ignored, the end of a child could not be waited for */
    prctl(PR_SET_NAME, name);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != root)
        _exit(EXIT_FAILURE);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int own = fcntl(fd, F_DUPFD_CLOEXEC, SERVER_FD);
    for (int standard = 0; standard < SERVER_FD; standard++)
        dup2(null, standard);
    dup2(own, SERVER_FD);
    descriptors_close_range(SERVER_FD + 1, ~0u);
    raise_descriptor_limit();
}

int signal_stops(int number)
{
    return number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

void signal_stop_self(int number)
{
    sigset_t set;
    if (sigpending(&set) == 0 && sigismember(&set, SIGCONT))
        return; /* continued meanwhile: a stop signal would discard the pending SIGCONT */
    sigemptyset(&set);
    sigaddset(&set, number);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}
