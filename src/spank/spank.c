/* src/spank/spank.c: onespace_spank.so, Slurm's plug-in for `srun --onespace[=OPTIONS] PROGRAM`:
 * each rank is started as `onespace run OPTIONS PROGRAM`.
 *
 * srun checks the options once, before it starts anything. slurmstepd changes the argument vector
 * of the rank in the last hook before it executes the program, so that prologs, limits, affinity
 * and the environment are those of any step. salloc, and the batch script of sbatch, hand the
 * option on to each srun of the job by ONESPACE_SRUN.
 *
 * It is compiled for one release of Slurm, which loads no plug-in of another one, and uses nothing
 * else of onespace's.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

/* Slurm finds these by name. */
#pragma GCC visibility push(default)
SPANK_PLUGIN(onespace, 1)
spank_f slurm_spank_init, slurm_spank_init_post_opt, slurm_spank_task_init;
#pragma GCC visibility pop

#define HAS_PREPEND (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0))

/* The same as the option, for module files and job scripts. */
#define VARIABLE "ONESPACE_SRUN"
/* Where srun itself looks for the option of this plug-in. */
#define SLURMS_VARIABLE "SLURM_SPANK__SLURM_SPANK_OPTION_onespace_onespace"

enum { WORDS_MAX = 64, OPTIONS_MAX = 4096 };

/* The options of this step; NULL: none, or "off". */
static char *options;
static spank_context_t context;
/* From plugstack.conf: where the command is, if not above this plug-in. */
static char configured_command[PATH_MAX];

/* ---- The command ---- */

/* Whether the file and its directory belong to root, or to the owner of this plug-in, and no other
 * user may write there. */
static int is_installed(const char *path, const char *plugin)
{
    char directory[PATH_MAX];
    struct stat of_plugin, of_file, of_directory;
    snprintf(directory, sizeof(directory), "%s", path);
    *strrchr(directory, '/') = 0;
    if (stat(plugin, &of_plugin) != 0 || stat(path, &of_file) != 0 ||
        stat(directory, &of_directory) != 0)
        return 0;
    return (of_file.st_uid == 0 || of_file.st_uid == of_plugin.st_uid) &&
           (of_directory.st_uid == 0 || of_directory.st_uid == of_plugin.st_uid) &&
           !((of_file.st_mode | of_directory.st_mode) & S_IWOTH);
}

/* The path of a file that the installation has at `below` in the directory of this plug-in or of
 * one above it. 0, or -1.
 */
static int find_above(const char *below, char path[PATH_MAX])
{
    char directory[PATH_MAX];
    Dl_info self;
    if (!dladdr(&options, &self) || !self.dli_fname || !realpath(self.dli_fname, directory))
        return -1;
    for (char *slash; (slash = strrchr(directory, '/'));) {
        *slash = 0;
        if (snprintf(path, PATH_MAX, "%s/%s", directory, below) < PATH_MAX &&
            access(path, X_OK) == 0 && is_installed(path, self.dli_fname))
            return 0;
    }
    return -1;
}

/* The path of `onespace`, or the name alone, which may be in the PATH of the node. */
static const char *find_command(void)
{
    static char path[PATH_MAX];
    if (configured_command[0])
        return configured_command;
    return find_above("bin/onespace", path) == 0 ? path : "onespace";
}

/* ---- srun, sbatch, salloc ---- */

/* Lets the command check the options and print what is wrong. 0 or -1. Without a path of the
 * command the ranks check them: a name without a directory would be a file of the current
 * directory. */
static int check_options(const char *text)
{
    const char *command = find_command();
    char *const argv[] = {(char *)command, "mpiexec", "--onespace", (char *)text, "--print", NULL};
    posix_spawn_file_actions_t actions;
    int status = 0, failed;
    pid_t child;
    if (!*text || command[0] != '/' || access(command, X_OK) != 0 ||
        posix_spawn_file_actions_init(&actions) != 0)
        return 0;
    failed = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) ||
             posix_spawn(&child, command, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed)
        return 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 2 ? -1 : 0;
}

/* Called for the command line and the environment of srun, salloc and sbatch, and in slurmstepd for
 * what they have sent: the last one counts. */
static int on_option(int value, const char *text, int remote)
{
    (void)value;
    if (!text ||
        strcmp(text, "(null)") == 0) /* some releases send this for an option without a value */
        text = "";
    if (strlen(text) >= OPTIONS_MAX) {
        slurm_error("onespace: the options of --onespace have more than %d characters",
                    OPTIONS_MAX - 1);
        return -1;
    }
    if (!remote && strcmp(text, "off") != 0 && check_options(text) < 0)
        return -1;
    free(options);
    options = strcmp(text, "off") == 0 ? NULL : strdup(text);
    if (context == S_CTX_ALLOCATOR) /* salloc: for the command that it runs */
        setenv(VARIABLE, text, 1);
    return 0;
}

static struct spank_option option = {
    .name = "onespace",
    .arginfo = "OPTIONS",
    .usage = "run the ranks of a node as tasks of one address space; OPTIONS are those of "
             "`onespace run`, in one "
             "word with blanks between them; off: do not, where salloc, sbatch or " VARIABLE
             " ask for it",
    .has_arg = 2,
    .cb = on_option,
};

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
    static const char key[] = "onespace=";
    const char *asked = getenv(VARIABLE);
    context = spank_context();
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], key, sizeof(key) - 1) == 0)
            snprintf(configured_command, sizeof(configured_command), "%s",
                     argv[i] + sizeof(key) - 1);
        else
            slurm_error("onespace: plugstack.conf: %s is not known here; there is onespace=PATH",
                        argv[i]);
    }
    if (context != S_CTX_LOCAL && context != S_CTX_REMOTE && context != S_CTX_ALLOCATOR)
        return 0;
    if (context == S_CTX_LOCAL && asked)
        setenv(SLURMS_VARIABLE, asked, 1);
    return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}

/* The ranks, which may call srun, need not have both variables. */
int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv)
{
    (void)spank, (void)argc, (void)argv;
    if (context == S_CTX_LOCAL)
        unsetenv(SLURMS_VARIABLE);
    return 0;
}

/* ---- A rank, in its own process, just before the program is executed ---- */

/* Ends the rank: Slurm would ignore the result of an "optional" plug-in and run a process instead
 * of a task. */
static void refuse(const char *message)
{
    slurm_error("onespace: %s", message);
    _exit(126);
}

/* Whether the program is onespace itself, or a daemon with which another launcher starts its ranks:
 * mpiexec within a job of salloc or sbatch. */
static int starts_tasks_itself(const char *program)
{
    static const char *const names[] = {"onespace", "hydra_pmi_proxy", "hydra_bstrap_proxy",
                                        "orted", "prted"};
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

#if HAS_PREPEND
static void start_as_task(spank_t spank, int argc, char **argv)
{
    static char copy[OPTIONS_MAX];
    const char *words[WORDS_MAX + 2] = {find_command(), "run"};
    int count = 2;
    (void)argc, (void)argv;
    memcpy(copy, options, strlen(options) + 1);
    for (char *save, *word = strtok_r(copy, " \t", &save); word;
         word = strtok_r(NULL, " \t", &save)) {
        if (count == WORDS_MAX + 2)
            refuse("--onespace has too many options");
        words[count++] = word;
    }
    if (spank_prepend_task_argv(spank, count, words) != ESPANK_SUCCESS)
        refuse("this Slurm does not let a plug-in change a rank's command line: write `srun "
               "onespace run` before the "
               "program");
}
#else
/* These releases let a plug-in change the argument vector but not lengthen it. So the plug-in
 * replaces the program's name by that of src/spank/start.c, which finds the rest in its
 * environment. With
 * --multi-prog each rank has another vector, which a plug-in cannot see: argv is the name of the
 * file and its text. */
static void start_as_task(spank_t spank, int argc, char **argv)
{
    static char start[PATH_MAX];
    if (argc > 1 && strchr(argv[1], '\n') && argv[0][0] != '-')
        refuse("--onespace with --multi-prog needs Slurm 23.11 or later: write `onespace run` "
               "before each program of the "
               "file instead");
    if (find_above("start", start) < 0)
        refuse("the program `start` is not in the plug-in's directory: install both");
    if (spank_setenv(spank, "ONESPACE_SPANK_COMMAND", find_command(), 1) != ESPANK_SUCCESS ||
        spank_setenv(spank, "ONESPACE_SPANK_OPTIONS", options, 1) != ESPANK_SUCCESS ||
        spank_setenv(spank, "ONESPACE_SPANK_PROGRAM", argv[0], 1) != ESPANK_SUCCESS)
        refuse("the environment of the rank cannot be set");
    argv[0] = start;
}
#endif

int slurm_spank_task_init(spank_t spank, int unused, char **unused_argv)
{
    uint32_t step;
    int argc;
    char **argv;
    (void)unused, (void)unused_argv;
    if (!options || spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
        return 0;
    if (step >
        SLURM_MAX_NORMAL_STEP_ID) { /* a job's script or shell: for the steps that it starts */
        spank_setenv(spank, VARIABLE, options, 1);
        return 0;
    }
    if (spank_get_item(spank, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || argc < 1)
        refuse("Slurm does not tell the rank's command line");
    if (!starts_tasks_itself(argv[0]))
        start_as_task(spank, argc, argv);
    return 0;
}
