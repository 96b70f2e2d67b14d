/* cmd/run/options.c: the options of onespace run, and its programs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/lib/commands.h"
#include "cmd/lib/help.h"
#include "cmd/lib/options.h"
#include "cmd/run/collectives.h"
#include "cmd/run/run.h"

const char run_help[] =
    "usage: onespace run [OPTION...] PROGRAM [ARGUMENT...] [: [OPTION...] PROGRAM "
    "[ARGUMENT...]]...\n"
    "\n"
    "Runs programs as tasks of one address space. Started by a launcher (mpiexec, mpirun, srun, "
    "prterun) each instance runs one rank, in the space that the ranks of the node share. Started "
    "by hand it makes a space and runs N tasks.\n"
    "\n"
    "  -n, --ntasks, --np N  run N tasks of the next program (by hand; default 1)\n"
    "      --space NAME  join the space of that name, or make it\n"
    "      --cpu-bind none|core|CPUS  no CPU, a core each, or of a list: 0,2-4 (default: none)\n"
    "      --stack SIZE  main stack of each task, with suffix K, M or G (default: ulimit -s)\n"
    "      --on-failure keep|kill  the other tasks, when one fails (default: keep)\n"
    "      --thread-mode  tasks are threads of one process, with globals and a libc of their own "
    "(by hand)\n"
    "      --heap libc|tuned  tuned: malloc keeps freed memory (default: libc)\n"
    "      --no-interpose  leave the programs' libc unpatched (for comparisons)\n"
    "      --no-share-mappings  an address of its own for each shared mapping of each task\n"
    "      --guard[=report]  tasks cannot write to one another's memory by mistake: that ends a "
    "task; "
    "with report it goes on after the message (needs a CPU with protection keys)\n"
    "      --mpi-layer auto|off  auto: windows of ranks in one space are one memory (default)\n"
    "      --collectives auto|on|off|off=NAMES  auto: by loads and stores in a space, where they "
    "are "
    "many (default); on: from the first on; off: the MPI library's, all or those named, as "
    "off=scan,gather\n"
    "  -v, --verbose  name the space of each rank, and once what was chosen and set\n"
    "      --stats[=ranks]  at the end, what the tasks copied and by which way; with ranks each "
    "one's too\n"
    "  -h, --help\n"
    "\n"
    "Exit status: 0 when all tasks ended with 0, else that of the first that failed; 128+N for "
    "signal N; 127 program not found; 126 it cannot be a task (see `onespace check`); 2 wrong "
    "usage.\n";

enum {
    OPT_SPACE = 256,
    OPT_BIND,
    OPT_STACK,
    OPT_FAILURE,
    OPT_HEAP,
    OPT_NO_INTERPOSE,
    OPT_NO_SHARE,
    OPT_STATS,
    OPT_MPI,
    OPT_COLLECTIVES,
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
    {"no-interpose", no_argument, NULL, OPT_NO_INTERPOSE},
    {"no-share-mappings", no_argument, NULL, OPT_NO_SHARE},
    {"stats", optional_argument, NULL, OPT_STATS},
    {"mpi-layer", required_argument, NULL, OPT_MPI},
    {"collectives", required_argument, NULL, OPT_COLLECTIVES},
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
        value > (1ull << 30 >> shift << 0) || (value << shift) < 65536)
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
    return *text && *text != '.' && strlen(text) <= 40 && strspn(text, allowed) == strlen(text);
}

static int parse_option(int option, struct run_options *run, struct run_segment *segment)
{
    switch (option) {
    case 'n':
        run->counted = 1;
        return parse_count(optarg, &segment->count);
    case OPT_SPACE:
        if (!is_space_name(optarg))
            return bad_value("--space", optarg, "a name of at most 40 letters, digits and ._-");
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
    case OPT_NO_INTERPOSE:
        segment->flags |= ONESPACE_SPAWN_NO_INTERPOSE;
        return 0;
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
            return collectives_leave(optarg + 4);
        segment->flags &= ~(ONESPACE_SPAWN_COLLECTIVES | ONESPACE_SPAWN_COLLECTIVES_AT_ONCE);
        if (strcmp(optarg, "auto") == 0)
            segment->flags |= ONESPACE_SPAWN_COLLECTIVES;
        else if (strcmp(optarg, "on") == 0)
            segment->flags |= ONESPACE_SPAWN_COLLECTIVES | ONESPACE_SPAWN_COLLECTIVES_AT_ONCE;
        else if (strcmp(optarg, "off") != 0)
            return bad_value("--collectives", optarg, "auto, on, off or off=NAMES");
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
        return !optarg || strcmp(optarg, "ranks") == 0 ? 0 : bad_value("--stats", optarg, "ranks");
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
