/* cmd/bench/bench.c: onespace bench and onespace report: execute Python programs, which read the
 * same options again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/lib/options.h"

const char bench_help[] =
    "usage: onespace bench [OPTION...]\n"
    "\n"
    "Measures what two ranks gain as tasks of one address space, on this machine and with your "
    "MPI: MPI_Sendrecv and ping-pong as processes and as tasks, interleaved, beside memcpy "
    "between two threads.\n"
    "\n"
    "      --mpi path|mpich|openmpi|all  path: the MPI of mpicc and mpiexec in PATH (default); "
    "mpich, openmpi: Debian's; all: every one that is found\n"
    "      --quick  use fewer sizes and repeats: some seconds for each MPI\n"
    "      --repeats N  runs of processes and of tasks each; the fewer, the more the results "
    "scatter\n"
    "      --fresh  send freshly written data, not the same buffer repeatedly\n"
    "      --json  print the results as JSON (onespace-bench/1), not as a table\n"
    "  -h, --help  print this help\n"
    "\n"
    "Exit status: 0; 1 if something is missing or a run failed; 2 on a usage error.\n";

int command_bench(int argc, char **argv)
{
    static const char *mpi, *repeats;
    static int is_quick, is_fresh, is_json;
    static const struct command_option options[] = {
        {"mpi", .text = &mpi},        {"quick", .flag = &is_quick}, {"repeats", .text = &repeats},
        {"fresh", .flag = &is_fresh}, {"json", .flag = &is_json},   {.name = NULL}};
    if (options_parse(argc, argv, options, bench_help) != 0)
        return 2;
    if (optind < argc) {
        fprintf(stderr, "%s: unexpected '%s'. Try `onespace bench --help`.\n", argv[0],
                argv[optind]);
        return 2;
    }
    const char *const first[] = {"--mpi", "path", is_json ? "--no-plot" : NULL, NULL};
    return driver_become(argc, argv, "p2p/run", first);
}

const char report_help[] =
    "usage: onespace report [OPTION...]\n"
    "       onespace report --diagnose [-o FILE] [--seconds N] [-- COMMAND...]\n"
    "\n"
    "Makes one page, for a browser or a printer, of all benchmark results: a figure for each "
    "question, the published figure and claim beside the finding, machine and versions.\n"
    "\n"
    "      --results PATH  read the JSON files of this directory, or this file, also the "
    "node.json of a node kit; may be given several times (default: ONESPACE_BENCH_RESULTS, else "
    "bench/results, in an installation ~/.cache/onespace/bench)\n"
    "  -o, --output FILE  write this page (default: report.html in the first directory, or beside "
    "the first file), or this file with --diagnose, which must not exist (default: "
    "onespace-diagnosis-TIME.txt)\n"
    "      --diagnose  write a text file for a bug report instead: versions, findings of `onespace "
    "doctor`, settings of MPI and onespace, spaces with their tasks and memory, and the last "
    "messages in the system's logs. With COMMAND: run it and add its last output; if it does not "
    "end, also where its tasks wait. Values of variables that look secret are left out\n"
    "      --seconds N  end COMMAND after N seconds (default: 60)\n"
    "  -h, --help  print this help\n"
    "\n"
    "Files that are not results are named and left out.\n"
    "Exit status: 0; 1 if no results are left or the file cannot be written; 2 on a usage "
    "error.\n";

/* The index of the first "--", or argc. */
static int find_separator(int argc, char *const argv[])
{
    int at = 1;
    while (at < argc && strcmp(argv[at], "--") != 0)
        at++;
    return at;
}

int command_report(int argc, char **argv)
{
    static const char *results, *output, *seconds, *const none[] = {NULL};
    static int is_diagnose;
    static const struct command_option options[] = {{"results", .text = &results},
                                                    {"output", .text = &output, .letter = 'o'},
                                                    {"diagnose", .flag = &is_diagnose},
                                                    {"seconds", .text = &seconds},
                                                    {.name = NULL}};
    const int separator = find_separator(argc, argv);
    if (options_parse(argc, argv, options, report_help) != 0)
        return 2;
    if (is_diagnose && results)
        return options_refuse(argv[0], "--results is for the page of results, not for --diagnose");
    if (seconds && !is_diagnose)
        return options_refuse(argv[0], "--seconds is for --diagnose");
    if (seconds &&
        (!atoi(seconds) || strlen(seconds) > 6 || seconds[strspn(seconds, "0123456789")]))
        return options_refuse(argv[0], "--seconds: not a number of seconds from 1 to 999999");
    if (is_diagnose && optind < argc && optind <= separator)
        return options_refuse(argv[0], "put -- before the command that is to be run");
    if (is_diagnose)
        return driver_become(argc, argv, "lib/onespace_diagnose.py", none);
    if (optind < argc) {
        fprintf(stderr,
                "%s: unexpected '%s': directories are named with --results. Try `onespace report "
                "--help`.\n",
                argv[0], argv[optind]);
        return 2;
    }
    return driver_become(argc, argv, "lib/onespace_report.py", none);
}
