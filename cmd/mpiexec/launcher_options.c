/* cmd/mpiexec/launcher_options.c: where a launcher's options end and its program begins.
 *
 * These tables have the number of words of each option of the launchers. An option that is not in
 * them is rejected: the word after it may be its argument or the program. */
#include "cmd/mpiexec/mpiexec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/lib/options.h"
#include "cmd/run/run.h"

enum {
    NAME_AND_VALUE = -1, /* one word with a "=" in it, else two */
    AMBIGUOUS = -2,      /* differs between versions, or may be left out */
    PROGRAM_FILE = -3,   /* a file that names the programs */
    COPIES_PROGRAM = -4, /* the program to other nodes, which would be `onespace` */
};

/* Options with the same number of words. */
struct launcher_options {
    int words;         /* that belong to each of them, or one of the above */
    const char *names; /* separated by blanks, without the one or two "-" that launchers take */
};

/* mpiexec of MPICH 3.3 to 5.0, and the options that Intel MPI adds. */
static const struct launcher_options hydra_options[] = {
    {0, "genvnone genvall envnone envall profile prepend-rank l enable-x disable-x debug "
        "disable-auto-cleanup enable-auto-cleanup disable-hostname-propagation "
        "enable-hostname-propagation hybrid-hosts info pmi-port print-all-exitcodes "
        "skip-launch-node v verbose version help h aps mps gdb rr silent-abort nolocal "
        "print-rank-map prepend-timestamp prot"},
    {1, "genvlist envlist f hostfile machinefile machine machines machinelist host hosts "
        "hostlist rankmap ppn output-from prepend-pattern outfile-pattern errfile-pattern "
        "outfile errfile wdir n np memory-alloc-kinds launcher launcher-exec bootstrap "
        "bootstrap-exec rmk topolib binding bind-to map-by membind demux g gpus-per-proc "
        "gpu-subdevs-per-proc iface localhost nameserver order-nodes usize gdb-args gtool "
        "gtoolfile hosts-group perhost grr s cpu-bind"},
    {NAME_AND_VALUE, "genv env"},
    {AMBIGUOUS, "tune"},
    {PROGRAM_FILE, "configfile"},
    {0, NULL},
};

/* mpirun of Open MPI 4 and 5, and PRRTE's prterun. */
static const struct launcher_options openmpi_options[] = {
    {0, "bind-to-core bind-to-socket bycore bynode byslot pernode nolocal oversubscribe "
        "nooversubscribe use-hwthread-cpus report-bindings display-allocation "
        "display-devel-allocation display-map display-devel-map display-diffable-map "
        "display-comm display-comm-finalize do-not-launch do-not-resolve do-not-connect "
        "merge-stderr-to-stdout tag-output timestamp-output xml set-cwd-to-session-dir noprefix "
        "no-app-prefix allow-run-as-root report-state-on-timeout get-stack-traces "
        "report-child-jobs-separately show-progress d debug debug-devel debug-daemons "
        "debug-daemons-file leave-session-attached stop-on-exec stop-in-init stop-in-app tv "
        "system-server system-server-first system-server-only set-sid no-ready-msg novm "
        "hetero-nodes fwd-mpirun-port enable-instant-on-support enable-recovery "
        "disable-recovery continuous index-argv-by-rank use-regexp no-aggregate-help parseable "
        "parsable p q quiet v verbose V version"},
    {1, "c n np N x am amca tune H host hostfile machinefile default-hostfile add-host "
        "add-hostfile rf rankfile map-by rank-by bind-to mapby rankby bindto runtime-options "
        "rtos cf cartofile cpu-list cpu-set cpus-per-proc cpus-per-rank npernode npersocket ppr "
        "display output output-filename output-directory stream-buffering stdin xml-file xterm "
        "wd wdir path prefix pmix-prefix app-pmix-prefix tmpdir unset-env pset preload-files "
        "timeout spawn-timeout report-events report-pid report-uri debugger personality dvm-uri "
        "hnp ompi-server pid namespace wait-to-connect num-connect-retries keepalive singleton "
        "launch-agent max-vm-size max-restarts forward-signals initial-errhandler "
        "memory-alloc-kinds gpu-support arch"},
    {2, "mca gmca omca gomca prtemca pmixmca gpmixmca"},
    {AMBIGUOUS, "display-topo output-proctable set-env prepend-env append-env fwd-environment dvm "
                "with-ft soft h help"},
    {PROGRAM_FILE, "app file"},
    {COPIES_PROGRAM, "s preload-binary"},
    {0, NULL},
};

/* The options that all launchers have, for an unknown launcher. */
static const struct launcher_options common_options[] = {{1, "n np"}, {0, NULL}};

static const struct launcher_options *options_of(enum mpi_family family)
{
    return family == MPI_FAMILY_HYDRA     ? hydra_options
           : family == MPI_FAMILY_OPENMPI ? openmpi_options
                                          : common_options;
}

/* The options that have as many words as this one, or NULL if the launcher has no such option. */
static const struct launcher_options *find_option(enum mpi_family family, const char *word)
{
    const char *name = word + 1 + (word[1] == '-');
    size_t length = strlen(name);
    for (const struct launcher_options *options = options_of(family); options->names; options++)
        for (const char *at = options->names; *at; at += *at == ' ') {
            size_t size = strcspn(at, " ");
            if (size == length && memcmp(at, name, length) == 0)
                return options;
            at += size;
        }
    return NULL;
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
    static char count_option[] = "-n"; /* of all launchers but srun, which has --ntasks, too */
    const char *word = argv[at];
    int is_slurms = strncmp(word, "--ntasks", 8) == 0 && !find_option(family, word);
    if (is_slurms && word[8] == '=') {
        snprintf(problem, (size_t)size, "%s: this launcher takes the count by -n %s", word,
                 word + 9);
        return -EINVAL;
    }
    if (is_slurms && !word[8])
        word = argv[at] = count_option;
    if (strchr(word, '=')) /* --name=value */
        return 1;
    const struct launcher_options *option = find_option(family, word);
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

/* Takes an option of `onespace run`, unless this launcher has it, too. Returns its words, or 0. A
 * launcher whose options are not known may have any. Intel MPI's -cpu-bind has one dash. */
static int take_run_option(enum mpi_family family, char **argv, int at, int end,
                           struct mpiexec_words *words)
{
    int is_launchers = find_option(family, argv[at]) != NULL && strcmp(argv[at], "--cpu-bind") != 0;
    int count = family == MPI_FAMILY_UNKNOWN || is_launchers ? 0 : run_option_words(argv[at]);
    if (at + count > end || words->run_count + count > MPIEXEC_RUN_WORDS_MAX)
        return 0;
    for (int i = 0; i < count; i++)
        words->run[words->run_count++] = at + i;
    return count;
}

static int find_separator(char **argv, int at, int end)
{
    while (at < end && strcmp(argv[at], "--") != 0)
        at++;
    return at < end ? at : -1;
}

/* Everything before a "--" belongs to the launcher, even unknown options. */
static int find_program(enum mpi_family family, char **argv, struct mpiexec_part *part,
                        struct mpiexec_words *words)
{
    const int size = (int)sizeof(words->problem);
    char *problem = words->problem;
    int at = part->start, count;
    while (at < part->end && argv[at][0] == '-' && strcmp(argv[at], "--") != 0) {
        count = take_run_option(family, argv, at, part->end, words);
        if (count == 0)
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
    words->count = words->run_count = 0;
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
        int status = find_program(family, argv, part, words);
        if (status < 0)
            return status;
    }
    return 0;
}
