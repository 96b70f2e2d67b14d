/* cmd/mpiexec/launcher_options.c: where a launcher's options end and its program begins.
 *
 * This table has the number of words of each option of the launchers. An option that is not in it
 * is rejected: the word after it may be its argument or the program. */
#include "cmd/mpiexec/mpiexec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/lib/options.h"

enum {
    NAME_AND_VALUE = -1, /* one word with a "=" in it, else two */
    AMBIGUOUS = -2,      /* differs between versions, or may be left out */
    PROGRAM_FILE = -3,   /* a file that names the programs */
    COPIES_PROGRAM = -4, /* the program to other nodes, which would be `onespace` */
};

struct launcher_option {
    const char *name; /* without the one or two "-" before it: launchers take both */
    int words;        /* that belong to it, or one of the above */
};

/* mpiexec of MPICH 3.3 to 5.0, and of Intel MPI, which has these and more. */
static const struct launcher_option hydra_options[] = {
    {"genv", NAME_AND_VALUE},
    {"env", NAME_AND_VALUE},
    {"genvlist", 1},
    {"genvnone", 0},
    {"genvall", 0},
    {"envlist", 1},
    {"envnone", 0},
    {"envall", 0},
    {"f", 1},
    {"hostfile", 1},
    {"machinefile", 1},
    {"machine", 1},
    {"machines", 1},
    {"machinelist", 1},
    {"host", 1},
    {"hosts", 1},
    {"hostlist", 1},
    {"rankmap", 1},
    {"ppn", 1},
    {"profile", 0},
    {"output-from", 1},
    {"prepend-rank", 0},
    {"l", 0},
    {"prepend-pattern", 1},
    {"outfile-pattern", 1},
    {"errfile-pattern", 1},
    {"outfile", 1},
    {"errfile", 1},
    {"wdir", 1},
    {"configfile", PROGRAM_FILE},
    {"n", 1},
    {"np", 1},
    {"memory-alloc-kinds", 1},
    {"launcher", 1},
    {"launcher-exec", 1},
    {"bootstrap", 1},
    {"bootstrap-exec", 1},
    {"enable-x", 0},
    {"disable-x", 0},
    {"rmk", 1},
    {"topolib", 1},
    {"binding", 1},
    {"bind-to", 1},
    {"map-by", 1},
    {"membind", 1},
    {"demux", 1},
    {"debug", 0},
    {"disable-auto-cleanup", 0},
    {"enable-auto-cleanup", 0},
    {"disable-hostname-propagation", 0},
    {"enable-hostname-propagation", 0},
    {"g", 1},
    {"gpus-per-proc", 1},
    {"gpu-subdevs-per-proc", 1},
    {"hybrid-hosts", 0},
    {"iface", 1},
    {"info", 0},
    {"localhost", 1},
    {"nameserver", 1},
    {"order-nodes", 1},
    {"pmi-port", 0},
    {"print-all-exitcodes", 0},
    {"skip-launch-node", 0},
    {"usize", 1},
    {"v", 0},
    {"verbose", 0},
    {"version", 0},
    {"help", 0},
    {"h", 0},
    /* Intel's. */
    {"aps", 0},
    {"mps", 0},
    {"gdb", 0},
    {"gdb-args", 1},
    {"gtool", 1},
    {"gtoolfile", 1},
    {"hosts-group", 1},
    {"perhost", 1},
    {"grr", 1},
    {"rr", 0},
    {"s", 1},
    {"silent-abort", 0},
    {"nolocal", 0},
    {"tune", AMBIGUOUS},
    {"print-rank-map", 0},
    {"prepend-timestamp", 0},
    {"prot", 0},
    {"cpu-bind", 1},
    {NULL, 0},
};

/* mpirun of Open MPI 4 and 5, and PRRTE's prterun. */
static const struct launcher_option openmpi_options[] = {
    {"c", 1},
    {"n", 1},
    {"np", 1},
    {"N", 1},
    {"app", PROGRAM_FILE},
    {"file", PROGRAM_FILE},
    {"x", 1},
    {"mca", 2},
    {"gmca", 2},
    {"omca", 2},
    {"gomca", 2},
    {"prtemca", 2},
    {"pmixmca", 2},
    {"gpmixmca", 2},
    {"am", 1},
    {"amca", 1},
    {"tune", 1},
    {"H", 1},
    {"host", 1},
    {"hostfile", 1},
    {"machinefile", 1},
    {"default-hostfile", 1},
    {"add-host", 1},
    {"add-hostfile", 1},
    {"rf", 1},
    {"rankfile", 1},
    {"map-by", 1},
    {"rank-by", 1},
    {"bind-to", 1},
    {"mapby", 1},
    {"rankby", 1},
    {"bindto", 1},
    {"runtime-options", 1},
    {"rtos", 1},
    {"bind-to-core", 0},
    {"bind-to-socket", 0},
    {"bycore", 0},
    {"bynode", 0},
    {"byslot", 0},
    {"cf", 1},
    {"cartofile", 1},
    {"cpu-list", 1},
    {"cpu-set", 1},
    {"cpus-per-proc", 1},
    {"cpus-per-rank", 1},
    {"npernode", 1},
    {"npersocket", 1},
    {"pernode", 0},
    {"ppr", 1},
    {"nolocal", 0},
    {"oversubscribe", 0},
    {"nooversubscribe", 0},
    {"use-hwthread-cpus", 0},
    {"report-bindings", 0},
    {"display", 1},
    {"display-allocation", 0},
    {"display-devel-allocation", 0},
    {"display-map", 0},
    {"display-devel-map", 0},
    {"display-diffable-map", 0},
    {"display-topo", AMBIGUOUS},
    {"display-comm", 0},
    {"display-comm-finalize", 0},
    {"do-not-launch", 0},
    {"do-not-resolve", 0},
    {"do-not-connect", 0},
    {"output", 1},
    {"output-filename", 1},
    {"output-directory", 1},
    {"output-proctable", AMBIGUOUS},
    {"merge-stderr-to-stdout", 0},
    {"stream-buffering", 1},
    {"tag-output", 0},
    {"timestamp-output", 0},
    {"stdin", 1},
    {"xml", 0},
    {"xml-file", 1},
    {"xterm", 1},
    {"wd", 1},
    {"wdir", 1},
    {"set-cwd-to-session-dir", 0},
    {"path", 1},
    {"prefix", 1},
    {"noprefix", 0},
    {"pmix-prefix", 1},
    {"app-pmix-prefix", 1},
    {"no-app-prefix", 0},
    {"tmpdir", 1},
    {"set-env", AMBIGUOUS},
    {"prepend-env", AMBIGUOUS},
    {"append-env", AMBIGUOUS},
    {"unset-env", 1},
    {"fwd-environment", AMBIGUOUS},
    {"pset", 1},
    {"s", COPIES_PROGRAM},
    {"preload-binary", COPIES_PROGRAM},
    {"preload-files", 1},
    {"allow-run-as-root", 0},
    {"timeout", 1},
    {"spawn-timeout", 1},
    {"report-state-on-timeout", 0},
    {"get-stack-traces", 0},
    {"report-child-jobs-separately", 0},
    {"report-events", 1},
    {"report-pid", 1},
    {"report-uri", 1},
    {"show-progress", 0},
    {"d", 0},
    {"debug", 0},
    {"debug-devel", 0},
    {"debug-daemons", 0},
    {"debug-daemons-file", 0},
    {"debugger", 1},
    {"leave-session-attached", 0},
    {"stop-on-exec", 0},
    {"stop-in-init", 0},
    {"stop-in-app", 0},
    {"tv", 0},
    {"personality", 1},
    {"dvm", AMBIGUOUS},
    {"dvm-uri", 1},
    {"hnp", 1},
    {"ompi-server", 1},
    {"pid", 1},
    {"namespace", 1},
    {"system-server", 0},
    {"system-server-first", 0},
    {"system-server-only", 0},
    {"wait-to-connect", 1},
    {"num-connect-retries", 1},
    {"keepalive", 1},
    {"set-sid", 0},
    {"no-ready-msg", 0},
    {"singleton", 1},
    {"launch-agent", 1},
    {"max-vm-size", 1},
    {"max-restarts", 1},
    {"novm", 0},
    {"hetero-nodes", 0},
    {"forward-signals", 1},
    {"fwd-mpirun-port", 0},
    {"enable-instant-on-support", 0},
    {"enable-recovery", 0},
    {"disable-recovery", 0},
    {"continuous", 0},
    {"index-argv-by-rank", 0},
    {"use-regexp", 0},
    {"with-ft", AMBIGUOUS},
    {"initial-errhandler", 1},
    {"memory-alloc-kinds", 1},
    {"gpu-support", 1},
    {"no-aggregate-help", 0},
    {"soft", AMBIGUOUS},
    {"arch", 1},
    {"parseable", 0},
    {"parsable", 0},
    {"p", 0},
    {"q", 0},
    {"quiet", 0},
    {"v", 0},
    {"verbose", 0},
    {"V", 0},
    {"version", 0},
    {"h", AMBIGUOUS},
    {"help", AMBIGUOUS},
    {NULL, 0},
};

/* The options that all launchers have, for an unknown launcher. */
static const struct launcher_option common_options[] = {{"n", 1}, {"np", 1}, {NULL, 0}};

static const struct launcher_option *options_of(enum mpi_family family)
{
    return family == MPI_FAMILY_HYDRA     ? hydra_options
           : family == MPI_FAMILY_OPENMPI ? openmpi_options
                                          : common_options;
}

/* The option that this word is, or NULL. */
static const struct launcher_option *find_option(enum mpi_family family, const char *word)
{
    const struct launcher_option *option = options_of(family);
    const char *name = word + 1 + (word[1] == '-');
    while (option->name && strcmp(option->name, name) != 0)
        option++;
    return option->name ? option : NULL;
}

static const char *own_name(const void *names, int index)
{
    return ((const char *const *)names)[index];
}

/* The option of `onespace mpiexec` itself that is most similar, or NULL. */
static const char *own_option_like(const char *word)
{
    static const char *const names[] = {"launcher", "onespace", "print", NULL};
    return help_most_similar(word + 1 + (word[1] == '-'), own_name, names);
}

/* How many words of argv belong to the option at argv[at], itself included; 0: not known; -EINVAL:
 * there is no program to find. */
static int words_of(enum mpi_family family, char **argv, int at, int end, char *problem, int size)
{
    const char *word = argv[at];
    if (strchr(word, '=')) /* --name=value */
        return 1;
    const struct launcher_option *option = find_option(family, word);
    int count = option ? option->words : AMBIGUOUS;
    if (count == NAME_AND_VALUE)
        count = at + 1 < end && strchr(argv[at + 1], '=') ? 1 : 2;
    const char *like = option ? NULL : own_option_like(word);
    if (count == AMBIGUOUS)
        snprintf(problem, (size_t)size,
                 "whether the word after %s belongs to this option is not known here: put -- "
                 "before the program%s%s%s",
                 word, like ? "; did you mean --" : "", like ? like : "", like ? "?" : "");
    if (count == PROGRAM_FILE)
        snprintf(problem, (size_t)size,
                 "%s names a file with programs: write `onespace run` before each of them there, "
                 "and call the launcher itself",
                 word);
    if (count == COPIES_PROGRAM)
        snprintf(problem, (size_t)size,
                 "%s would copy `onespace` to the nodes and not the program: use --preload-files",
                 word);
    return count >= 0 ? 1 + count : count == AMBIGUOUS ? 0 : -EINVAL;
}

static int find_separator(char **argv, int at, int end)
{
    while (at < end && strcmp(argv[at], "--") != 0)
        at++;
    return at < end ? at : -1;
}

/* Everything before a "--" belongs to the launcher, even unknown options. */
static int find_program(enum mpi_family family, char **argv, struct mpiexec_part *part,
                        char *problem, int size)
{
    int at = part->start, count;
    while (at < part->end && argv[at][0] == '-' && strcmp(argv[at], "--") != 0) {
        count = words_of(family, argv, at, part->end, problem, size);
        if (count <= 0)
            part->separator = find_separator(argv, at, part->end);
        if (count < 0 || (count == 0 && part->separator < 0))
            return -EINVAL;
        at = count > 0 ? at + count : part->separator;
    }
    if (at < part->end && strcmp(argv[at], "--") == 0)
        part->separator = at++;
    part->program = at;
    if (at < part->end)
        return 0;
    snprintf(problem, (size_t)size, "no program given");
    return -EINVAL;
}

int mpiexec_split(enum mpi_family family, int argc, char **argv, struct mpiexec_words *words)
{
    words->count = 0;
    for (int start = 0, end; start <= argc; start = end + 1) {
        for (end = start; end < argc && strcmp(argv[end], ":") != 0; end++)
            ;
        if (words->count == MPIEXEC_PARTS_MAX) {
            snprintf(words->problem, sizeof(words->problem), "more than %d programs",
                     MPIEXEC_PARTS_MAX);
            return -EINVAL;
        }
        struct mpiexec_part *part = &words->parts[words->count++];
        *part = (struct mpiexec_part){.start = start, .end = end, .separator = -1};
        int status = find_program(family, argv, part, words->problem, (int)sizeof(words->problem));
        if (status < 0)
            return status;
    }
    return 0;
}
