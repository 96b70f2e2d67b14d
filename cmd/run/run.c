/* cmd/run/run.c: onespace run: its options, and the choice between a shim and a standalone run. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/kernel.h"
#include "arch/keys.h"
#include "cmd/lib/options.h"
#include "cmd/lib/overflows.h"
#include "cmd/run/run.h"
#include "launch/launch.h"
#include "mpi/names/functions.h"
#include "spawn/spawn.h"

/* ---- --collectives off=NAMES ---- */

static const char *const operations[] = {
#define NAME(name) #name,
    MPI_COLLECTIVES(NAME) MPI_NONBLOCKING(NAME)
#undef NAME
};

static int is_operation(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        if (strlen(operations[i]) == length && strncasecmp(operations[i], name, length) == 0)
            return 1;
    return 0;
}

static int set_collectives_off(const char *names)
{
    for (const char *name = names;; name++) {
        size_t length = strcspn(name, ",");
        if (!is_operation(name, length)) {
            fprintf(stderr,
                    "onespace run: --collectives off=%s: %.*s is not the name of a collective "
                    "operation, such as allreduce, scan or gatherv\n",
                    names, (int)length, name);
            return -1;
        }
        name += length;
        if (!*name)
            break;
    }
    return setenv(COLLECTIVES_OFF_ENV, names, 1);
}

/* ---- Options and programs ---- */

const char run_help[] =
    "usage: onespace run [OPTION...] PROGRAM [ARGUMENT...] [: [OPTION...] PROGRAM "
    "[ARGUMENT...]]...\n"
    "\n"
    "Runs programs as tasks of one address space. Started by a launcher (mpiexec, mpirun, srun, "
    "prterun), each instance runs one rank, in the space that the ranks of the node share. "
    "Started by hand, it makes a space and runs N tasks of each program.\n"
    "\n"
    "  -n, --ntasks, --np N  run N tasks of the next program (default 1); under a launcher each "
    "instance then makes a space of its own\n"
    "      --space NAME  join the space of that name, or make it\n"
    "      --cpu-bind none|core|CPUS  bind tasks to no CPU, to a core each, or to CPUs of a "
    "list such as 0,2-4 (default: none)\n"
    "      --stack SIZE  main stack of each task, with suffix K, M or G (default: ulimit -s)\n"
    "      --on-failure keep|kill  what to do with the other tasks when one fails (by hand; "
    "default: keep)\n"
    "      --thread-mode  run tasks as threads of one process, with their own globals and libc "
    "(by hand)\n"
    "      --shm auto|space|system  where tasks' files below /dev/shm are: in memory of the space, "
    "or in the system's directory; auto: there if it is large enough (default)\n"
    "      --heap libc|tuned  tuned: malloc keeps freed memory (default: libc)\n"
    "      --no-interpose  leave the programs' libc unpatched (for comparisons)\n"
    "      --no-share-mappings  give each shared mapping of a task an address of its own\n"
    "      --guard[=report]  end a task that writes to the memory of another one by mistake; "
    "report: print a message and continue (needs a CPU with protection keys)\n"
    "      --mpi-layer auto|off  auto: MPI windows of ranks in one space are one memory "
    "(default); off: the MPI library's\n"
    "      --collectives auto|on|off|off=NAMES  run collective operations by loads and stores; "
    "auto: if all ranks are tasks of one space, those of MPI_COMM_WORLD, and of other "
    "communicators from the first reduction or the 2048th operation on (default); on: of all "
    "communicators with ranks that share a space; off: none, or all but those named, such as "
    "off=scan,gather\n"
    "      --progress  ranks that wait make progress for ranks that compute: messages and "
    "nonblocking operations go on; needs MPI_THREAD_MULTIPLE\n"
    "  -v, --verbose  print the space of each rank, and once what was chosen and set\n"
    "      --stats[=ranks]  at the end print how much the tasks copied, and how; ranks: also "
    "for each task\n"
    "  -h, --help  print this help\n"
    "\n"
    "Exit status: 0 if all tasks ended with 0, otherwise that of the first that failed; 128+N "
    "for signal N; 127 if the program was not found; 126 if it cannot be a task (see `onespace "
    "check`); 2 on a usage error.\n";

enum {
    OPT_SPACE = 256,
    OPT_BIND,
    OPT_STACK,
    OPT_FAILURE,
    OPT_HEAP,
    OPT_SHM,
    OPT_NO_INTERPOSE,
    OPT_NO_SHARE,
    OPT_STATS,
    OPT_MPI,
    OPT_COLLECTIVES,
    OPT_PROGRESS,
    OPT_THREADS,
    OPT_GUARD
};

static const struct option options[] = {
    {"ntasks", required_argument, NULL, 'n'},
    {"np", required_argument, NULL, 'n'},
    {"space", required_argument, NULL, OPT_SPACE},
    {"cpu-bind", required_argument, NULL, OPT_BIND},
    {"stack", required_argument, NULL, OPT_STACK},
    {"on-failure", required_argument, NULL, OPT_FAILURE},
    {"heap", required_argument, NULL, OPT_HEAP},
    {"shm", required_argument, NULL, OPT_SHM},
    {"no-interpose", no_argument, NULL, OPT_NO_INTERPOSE},
    {"no-share-mappings", no_argument, NULL, OPT_NO_SHARE},
    {"stats", optional_argument, NULL, OPT_STATS},
    {"mpi-layer", required_argument, NULL, OPT_MPI},
    {"collectives", required_argument, NULL, OPT_COLLECTIVES},
    {"progress", no_argument, NULL, OPT_PROGRESS},
    {"guard", optional_argument, NULL, OPT_GUARD},
    {"thread-mode", no_argument, NULL, OPT_THREADS},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int bad_value(const char *option, const char *value, const char *allowed)
{
    fprintf(stderr, "onespace run: %s %s: not %s\n", option, value, allowed);
    return -1;
}

static int parse_size(const char *text, size_t *size)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' || *end == 'k'   ? 10
                     : *end == 'M' || *end == 'm' ? 20
                     : *end == 'G' || *end == 'g' ? 30
                                                  : 0;
    if (end == text || errno || *text == '-' || (shift ? end[1] : *end) ||
        value > (1ull << 30 >> shift) || (value << shift) < 65536)
        return bad_value("--stack", text, "a size from 64K to 1G, such as 16M");
    *size = (size_t)(value << shift);
    return 0;
}

static int parse_count(const char *text, int *count)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < 1 || value > ONESPACE_TASKS_MAX)
        return bad_value("-n", text, "a number of tasks from 1 to 2047");
    *count = (int)value;
    return 0;
}

static int is_space_name(const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-";
    return *text && *text != '.' && strlen(text) <= 50 && strspn(text, allowed) == strlen(text);
}

static int parse_option(int option, struct run_options *run, struct run_segment *segment)
{
    switch (option) {
    case 'n':
        run->count_given = 1;
        return parse_count(optarg, &segment->count);
    case OPT_SPACE:
        if (!is_space_name(optarg))
            return bad_value("--space", optarg, "a name of at most 50 letters, digits and ._-");
        run->space = optarg;
        return 0;
    case OPT_BIND:
        run->bind = optarg;
        return 0;
    case OPT_STACK:
        return parse_size(optarg, &segment->stack_size);
    case OPT_FAILURE:
        run->kill_on_failure = strcmp(optarg, "kill") == 0;
        return run->kill_on_failure || strcmp(optarg, "keep") == 0
                   ? 0
                   : bad_value("--on-failure", optarg, "kill or keep");
    case OPT_HEAP:
        segment->flags &= ~ONESPACE_SPAWN_HEAP_TUNED;
        if (strcmp(optarg, "tuned") == 0)
            segment->flags |= ONESPACE_SPAWN_HEAP_TUNED;
        else if (strcmp(optarg, "libc") != 0)
            return bad_value("--heap", optarg, "libc or tuned");
        return 0;
    case OPT_SHM:
        if (strcmp(optarg, "auto") != 0 && strcmp(optarg, "space") != 0 &&
            strcmp(optarg, "system") != 0)
            return bad_value("--shm", optarg, "auto, space or system");
        return setenv(SHM_ENV, optarg, 1);
    case OPT_NO_INTERPOSE: /* such a task cannot find names that the space keeps */
        segment->flags |= ONESPACE_SPAWN_NO_INTERPOSE;
        return setenv(SHM_ENV, "system", 1);
    case OPT_NO_SHARE:
        segment->flags |= ONESPACE_SPAWN_OWN_MAPPINGS;
        return 0;
    case OPT_MPI:
        if (strcmp(optarg, "off") == 0)
            segment->flags |= ONESPACE_SPAWN_NO_MPI_LAYER;
        else if (strcmp(optarg, "auto") != 0)
            return bad_value("--mpi-layer", optarg, "auto or off");
        return 0;
    case OPT_COLLECTIVES:
        if (strncmp(optarg, "off=", 4) == 0)
            return set_collectives_off(optarg + 4);
        segment->flags &= ~(ONESPACE_SPAWN_COLLECTIVES | ONESPACE_SPAWN_COLLECTIVES_AT_ONCE);
        if (strcmp(optarg, "auto") == 0)
            segment->flags |= ONESPACE_SPAWN_COLLECTIVES;
        else if (strcmp(optarg, "on") == 0)
            segment->flags |= ONESPACE_SPAWN_COLLECTIVES | ONESPACE_SPAWN_COLLECTIVES_AT_ONCE;
        else if (strcmp(optarg, "off") != 0)
            return bad_value("--collectives", optarg, "auto, on, off or off=NAMES");
        return 0;
    case OPT_PROGRESS:
        segment->flags |= ONESPACE_SPAWN_PROGRESS;
        return 0;
    case OPT_GUARD:
        segment->flags &= ~ONESPACE_SPAWN_GUARD_REPORT;
        segment->flags |= ONESPACE_SPAWN_GUARD | (optarg ? ONESPACE_SPAWN_GUARD_REPORT : 0);
        return !optarg || strcmp(optarg, "report") == 0 ? 0
                                                        : bad_value("--guard", optarg, "report");
    case OPT_THREADS:
        run->thread_mode = 1;
        return 0;
    case OPT_STATS:
        run->stats = optarg ? REPORT_RANKS : REPORT_JOB;
        return !optarg || strcmp(optarg, "ranks") == 0
                   ? 0
                   : bad_value("--stats", optarg, "ranks, the only value");
    case 'v':
        run->verbose = 1;
        return 0;
    case 'h':
        help_print(stdout, run_help);
        exit(0);
    default:
        fprintf(stderr, "Try `onespace run --help`.\n");
        return -1;
    }
}

/* One program with its options: argv[0] is "run" or the ':' before it. */
static int parse_segment(int argc, char **argv, struct run_options *run,
                         struct run_segment *segment)
{
    argv[0] = "onespace run"; /* for getopt's messages */
    optind = 0;
    for (int option; (option = options_next(argc, argv, "+n:vh", options)) != -1;)
        if (parse_option(option, run, segment) < 0)
            return -1;
    if (optind >= argc) {
        fprintf(stderr, "onespace run: no program given. Try `onespace run --help`.\n");
        return -1;
    }
    segment->argv = argv + optind;
    return 0;
}

int run_parse(int argc, char **argv, struct run_options *run)
{
    for (int start = 0; start < argc;) {
        int end = start + 1;
        while (end < argc && strcmp(argv[end], ":") != 0)
            end++;
        if (run->segment_count == RUN_SEGMENTS_MAX) {
            fprintf(stderr, "onespace run: more than %d programs\n", RUN_SEGMENTS_MAX);
            return -1;
        }
        struct run_segment *segment = &run->segments[run->segment_count++];
        *segment = (struct run_segment){.count = 1, .flags = ONESPACE_SPAWN_COLLECTIVES};
        if (run->segment_count > 1) { /* options carry over to the next program */
            segment->flags = segment[-1].flags;
            segment->stack_size = segment[-1].stack_size;
        }
        argv[end] = NULL; /* the ':' ends this program's arguments */
        if (parse_segment(end - start, argv + start, run, segment) < 0)
            return -1;
        if (start > 0)
            argv[start] = NULL; /* and the arguments of the program before it */
        start = end;
    }
    return 0;
}

int run_option_words(const char *word)
{
    if (strncmp(word, "--", 2) != 0)
        return 0;
    size_t length = strcspn(word + 2, "=");
    for (const struct option *option = options; option->name; option++) {
        if (strlen(option->name) != length || strncmp(option->name, word + 2, length) != 0)
            continue;
        if (option->val == 'n' || option->val == 'h')
            return 0;
        return option->has_arg == required_argument && !word[2 + length] ? 2 : 1;
    }
    return 0;
}

/* ---- --verbose: a line for each rank, and one for the whole job ---- */

enum { WORDS = 3 * PATH_MAX };

/* One write per line, because ranks write to the same terminal. */
static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    static char line[WORDS + 1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    fprintf(stderr, "onespace run: %s\n", line);
}

/* Describes a Python interpreter that runs from its library; empty for other programs. */
static void describe_python(const struct run_segment *segment, char words[WORDS])
{
    static struct elf_program program;
    words[0] = 0;
    if (resolve_program(AT_FDCWD, segment->argv[0], segment->argv, getenv("PATH"), &program, NULL) <
        0)
        return; /* the spawn will report it */
    if (program.requested_path[0])
        snprintf(words, WORDS, "; %s is non-PIE: its tasks run the same Python from %s",
                 program.requested_path, program.argv[1]);
    elf_program_free(&program);
}

static void print_rank(const struct run_segment *segment, const char *space, const char *found_by,
                       int number, int count)
{
    static char python[WORDS];
    describe_python(segment, python);
    say("space %s (%s); local rank %d of %d%s", space, found_by, number, count, python);
}

static void print_own_space(const struct run_options *run)
{
    static char python[WORDS];
    say("a space of its own, root pid %d%s", getpid(),
        run->thread_mode ? "; tasks are threads of this process" : "");
    for (int s = 0; s < run->segment_count; s++) {
        describe_python(&run->segments[s], python);
        if (python[0])
            say("%s", python + 2);
    }
}

static void print_job(const struct run_segment *segment, const char *launcher, unsigned ranks)
{
    char settings[512], why[256];
    int is_kept = shm_is_kept_by_space(ranks, why, sizeof(why));
    mpi_defaults_describe(ranks, settings, sizeof(settings));
    say("launcher %s; copies between tasks %s; MPI windows are %s; files below /dev/shm "
        "are %s%s%s; %s",
        launcher,
        segment->flags & ONESPACE_SPAWN_NO_INTERPOSE ? "by the kernel (--no-interpose)"
                                                     : "in user space",
        segment->flags & ONESPACE_SPAWN_NO_MPI_LAYER
            ? "left to the MPI library (--mpi-layer off)"
            : "one memory for all ranks of the space (--mpi-layer auto)",
        is_kept ? "in memory of the space" : "the system's", why[0] ? ": " : "", why, settings);
}

/* 0, or less than 0; then the spawn will report it. */
static int resolve_segment(const struct run_segment *segment, struct elf_program *program)
{
    return resolve_program(AT_FDCWD, segment->argv[0], segment->argv, getenv("PATH"), program,
                           NULL);
}

/* ---- Programs that use GPUs of AMD ----
 *
 * Linux's driver finds its user by the user's memory, and serves only the process that came first
 * (kfd_create_process and kfd_ioctl, drivers/gpu/drm/amd/amdkfd). All tasks of a space have one
 * memory: the first can use the GPU, and the runtime of the others finds none. */

static int uses_amd_gpu(const struct run_segment *segment, char library[static NAME_MAX + 1])
{
    static struct elf_program program;
    if (access("/dev/kfd", F_OK) != 0 || resolve_segment(segment, &program) < 0)
        return 0;
    int result = elf_uses_amd_gpu(&program, library, NAME_MAX + 1);
    elf_program_free(&program);
    return result;
}

/* Whether this rank stays a process, as all others of the node that run its program do. With
 * --space the user has decided which tasks share a space. */
static int must_stay_process(const struct run_options *run, const struct launcher *launcher)
{
    const struct run_segment *segment = &run->segments[0];
    char library[NAME_MAX + 1];
    if (run->space || launcher->local_size == 1 || !uses_amd_gpu(segment, library))
        return 0;
    if (launcher->local_rank <= 0)
        fprintf(stderr,
                "onespace run: %s uses a GPU of AMD (%s), which only one task of a space can: its "
                "ranks stay processes\n",
                segment->argv[0], library);
    return 1;
}

/* 0, or an exit status with a message. */
static int check_amd_gpu(const struct run_options *run)
{
    char library[NAME_MAX + 1];
    int count = 0;
    for (int s = 0; s < run->segment_count; s++)
        if (uses_amd_gpu(&run->segments[s], library))
            count += run->segments[s].count;
    if (count < 2)
        return 0;
    fprintf(stderr,
            "onespace run: %d of the tasks use a GPU of AMD (%s), which only one task of a space "
            "can: run them as processes, or each by an onespace run of its own\n",
            count, library);
    return 126;
}

/* ---- Several MPI programs without a launcher ----
 *
 * Each such task is an MPI job of its own, rank 0 of 1. The MPI library cannot know better, and
 * most programs do not report it. So the root says once, before the tasks start, which command was
 * probably meant. */

/* The names in C, and those that Fortran compilers generate for mpif.h, mpi and mpi_f08. */
static const char *const initialise[] = {"MPI_Init",
                                         "MPI_Init_thread",
                                         "MPI_Session_init",
                                         "mpi_init_",
                                         "mpi_init_thread_",
                                         "mpi_session_init_",
                                         "mpi_init_f08_",
                                         "mpi_init_thread_f08_",
                                         "mpi_init_f08ts_",
                                         "mpi_init_thread_f08ts_",
                                         NULL};

static int calls_mpi(const struct run_segment *segment)
{
    static struct elf_program program;
    if (resolve_segment(segment, &program) < 0)
        return 0;
    int fd = open(program.path, O_RDONLY | O_CLOEXEC);
    int result = fd >= 0 && elf_imports(fd, initialise) == 1;
    if (fd >= 0)
        close(fd);
    elf_program_free(&program);
    return result;
}

static void warn_of_singletons(const struct run_options *run)
{
    int count = 0, parts = 0, is_mpi[RUN_SEGMENTS_MAX];
    const char *first = NULL;
    for (int s = 0; s < run->segment_count; s++) {
        is_mpi[s] = calls_mpi(&run->segments[s]);
        if (is_mpi[s] && !first)
            first = run->segments[s].argv[0];
        count += is_mpi[s] ? run->segments[s].count : 0;
    }
    if (count < 2)
        return;
    fprintf(
        stderr,
        "onespace run: %s calls MPI_Init, but without a launcher each of the %d tasks is rank 0 "
        "of 1: for one job of %d ranks run `onespace mpiexec",
        first, count, count);
    for (int s = 0; s < run->segment_count; s++)
        if (is_mpi[s])
            fprintf(stderr, "%s -n %d %s%s", parts++ ? " :" : "", run->segments[s].count,
                    run->segments[s].argv[0], run->segments[s].argv[1] ? " ..." : "");
    fprintf(stderr, "`\n");
}

/* ---- A launcher in place of the program ---- */

int run_is_launcher(const char *program)
{
    static const char *const names[] = {
        "mpiexec",       "mpirun",       "srun",          "prterun",        "orterun",
        "mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich", "mpirun.openmpi", "mpiexec.openmpi"};
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

static void warn_of_launchers(const struct run_options *run)
{
    for (int s = 0; s < run->segment_count; s++) {
        const char *program = run->segments[s].argv[0];
        if (run_is_launcher(program))
            fprintf(
                stderr,
                "onespace run: %s is a launcher: it becomes a task, and the ranks that it starts "
                "are processes as without onespace. For ranks that are tasks write `onespace "
                "mpiexec ...`, or `%s ... onespace run PROGRAM`\n",
                program, program);
    }
}

/* ---- The command ---- */

/* 0, or 2 with a message. */
static int check_numbers(const struct launcher *launcher)
{
    int rank = launcher->local_rank, size = launcher->local_size;
    if (size < 0 || (rank < size && size <= ONESPACE_TASKS_MAX))
        return 0;
    fprintf(stderr, "onespace run: %s=%d with %s=%d: %s\n", launcher->rank_variable, rank,
            launcher->size_variable, size,
            rank >= size ? "the launcher's variables contradict one another; unset those of "
                           "another job"
                         : "one space holds 2047 tasks; start fewer ranks on a node");
    return 2;
}

static int run_shim(const struct run_options *run, const struct launcher *launcher)
{
    const struct run_segment *segment = &run->segments[0];
    if (run->segment_count > 1 || segment->count > 1) {
        fprintf(stderr,
                "onespace run: with --space or under a launcher each instance runs one task; "
                "give the launcher the count instead\n");
        return 2;
    }
    if (check_numbers(launcher))
        return 2;
    if (run->kill_on_failure)
        fprintf(stderr, "onespace run: --on-failure is ignored: the launcher decides here\n");
    struct shim_task job = {
        .space = run->space ? run->space : launcher->space,
        .argv = segment->argv,
        .flags = segment->flags,
        .stack_size = segment->stack_size,
        .launcher = launcher->daemon,
        .number = launcher->local_size > 0 ? launcher->local_rank : -1,
        .ntasks = launcher->local_rank >= 0 ? launcher->local_size : -1,
        .stats = run->stats,
        .launch = launcher->space,
        .bind = run->bind,
        .is_process = must_stay_process(run, launcher),
    };
    if (job.is_process)
        return shim_run(&job);
    unsigned ranks = job.ntasks > 0 ? (unsigned)job.ntasks : 1;
    if (run->verbose)
        print_rank(segment, job.space, run->space ? "--space" : launcher->found_by, job.number,
                   job.ntasks);
    if (run->verbose && job.number <= 0) /* once for a job on this node */
        print_job(segment, launcher->is_rank ? launcher->kind : "none", ranks);
    mpi_defaults_set(ranks);
    return shim_run(&job);
}

static int refuse_threads(const char *with, const char *why)
{
    fprintf(stderr, "onespace run: --thread-mode with %s: %s\n", with, why);
    return 2;
}

/* Rejects what threads of one process cannot have. 0, or 2 with a message. */
static int check_thread_mode(const struct run_options *run, const struct launcher *launcher)
{
    if (run->space)
        return refuse_threads("--space", "what joins a space is a process of its own; leave one of "
                                         "the two out");
    if (launcher->is_rank && !run->count_given)
        return refuse_threads("a launcher", "its ranks are processes; leave --thread-mode out, or "
                                            "start the tasks by hand with -n N");
    if (run->kill_on_failure)
        return refuse_threads("--on-failure kill", "a signal that ends one of them ends all, this "
                                                   "command too; leave one of the two out");
    for (int s = 0; s < run->segment_count; s++)
        if (run->segments[s].flags & ONESPACE_SPAWN_NO_INTERPOSE)
            return refuse_threads("--no-interpose", "system calls of their libc must be "
                                                    "interposed; leave one of the two out");
    return 0;
}

static int refuse_guard(const struct launcher *launcher, int status, const char *why)
{
    if (launcher->local_rank <= 0) /* once for a job */
        fprintf(stderr, "onespace run: --guard%s\n", why);
    return status;
}

/* Before any task is started: 0, or the exit status with a message. */
static int check_guard(const struct run_options *run, const struct launcher *launcher)
{
    for (int s = 0; s < run->segment_count; s++) {
        unsigned flags = run->segments[s].flags;
        if (!(flags & ONESPACE_SPAWN_GUARD))
            continue;
        if (flags & ONESPACE_SPAWN_NO_INTERPOSE)
            return refuse_guard(launcher, 2,
                                " with --no-interpose: memory gets its key as system calls of the "
                                "libc map it; leave one of the two out");
        if (run->thread_mode)
            return refuse_guard(launcher, 2,
                                " with --thread-mode: threads of one process share their signal "
                                "handlers; leave one of the two out");
        if (!arch_cpu_has_keys())
            return refuse_guard(launcher, EXIT_FAILURE,
                                ": this CPU has no protection keys (Intel since Skylake-SP, AMD "
                                "since Zen 3, not in every virtual machine): leave --guard out, or "
                                "run on a CPU that has them");
        if (!arch_kernel_has_keys())
            return refuse_guard(launcher, EXIT_FAILURE,
                                ": the kernel does not use the CPU's protection keys: boot it "
                                "without nopku, and with "
                                "CONFIG_X86_INTEL_MEMORY_PROTECTION_KEYS");
    }
    return 0;
}

/* ---- --progress ---- */

static int refuse_progress(const struct launcher *launcher, const char *why)
{
    if (launcher->local_rank <= 0)
        fprintf(stderr, "onespace run: --progress with %s; leave one of the two out\n", why);
    return 2;
}

/* Where ranks outnumber CPUs, each gets its turn anyway, and MPI_THREAD_MULTIPLE has a price: Open
 * MPI 4.1 then hangs now and then, as processes, too. */
static int has_cpus_for_ranks(const struct run_options *run, const struct launcher *launcher)
{
    int ranks =
        launcher->is_rank && !run->count_given ? launcher->local_size : (int)standalone_count(run);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (ranks > cpus && launcher->local_rank <= 0)
        fprintf(stderr, "onespace run: --progress has no effect: %d ranks outnumber %ld CPUs\n",
                ranks, cpus);
    return ranks <= cpus;
}

/* 0, or an exit status with a message. */
static int set_progress(struct run_options *run, const struct launcher *launcher)
{
    unsigned all = 0;
    for (int s = 0; s < run->segment_count; s++) {
        unsigned flags = run->segments[s].flags;
        all |= flags;
        if ((flags & ONESPACE_SPAWN_PROGRESS) && run->thread_mode)
            return refuse_progress(launcher, "--thread-mode: each rank must be a process");
        if ((flags & ONESPACE_SPAWN_PROGRESS) && (flags & ONESPACE_SPAWN_NO_MPI_LAYER))
            return refuse_progress(launcher, "--mpi-layer off: the MPI layer makes the progress");
    }
    if (!(all & ONESPACE_SPAWN_PROGRESS))
        return 0;
    if (has_cpus_for_ranks(run, launcher))
        return mpi_defaults_set_threads() == 0 ? 0 : EXIT_FAILURE;
    for (int s = 0; s < run->segment_count; s++)
        run->segments[s].flags &= ~ONESPACE_SPAWN_PROGRESS;
    return 0;
}

/* Without /proc neither the host nor the patch sites of a library could be found. 0 or -1. */
static int check_proc(void)
{
    if (access("/proc/self/maps", R_OK) == 0)
        return 0;
    fprintf(stderr, "onespace run: /proc cannot be read: %s; mount it (mount -t proc proc /proc)\n",
            strerror(errno));
    return -1;
}

static int run_standalone(const struct run_options *run)
{
    int completed = 0, status = standalone_begin(standalone_count(run));
    if (status == 0) {
        if (run->verbose) {
            print_own_space(run);
            print_job(&run->segments[0], "none", standalone_count(run));
        }
        status = standalone_run(run, &completed);
        if (run->verbose && completed)
            overflows_print(stderr, output_width(stderr),
                            "onespace run: ", &space_registry()->overflows);
    }
    standalone_end(completed);
    return status;
}

int command_run(int argc, char **argv)
{
    static struct run_options run;
    struct launcher launcher;
    if (run_parse(argc, argv, &run) < 0)
        return 2;
    if (check_proc() < 0)
        return EXIT_FAILURE;
    launcher_find(&launcher);
    if (kernel_check(launcher.local_rank <= 0 ? "onespace run" : NULL) < 0) /* print once per job */
        return EXIT_FAILURE;
    if (run.thread_mode && check_thread_mode(&run, &launcher))
        return 2;
    int refused = check_guard(&run, &launcher);
    if (!refused)
        refused = set_progress(&run, &launcher);
    if (refused)
        return refused;
    if (run.space || (launcher.is_rank && !run.count_given))
        return run_shim(&run, &launcher);
    warn_of_launchers(&run);
    if (!launcher.is_rank)
        warn_of_singletons(&run);
    int too_many = check_amd_gpu(&run);
    return too_many ? too_many : run_standalone(&run);
}
