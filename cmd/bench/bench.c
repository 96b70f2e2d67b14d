/* cmd/bench/bench.c: onespace bench and onespace report: execute Python programs, which read the
 * same options again. */
#include <stdio.h>

#include "cmd/lib/options.h"

const char bench_help[] =
    "usage: onespace bench [OPTION...]\n"
    "\n"
    "Measures what two ranks gain as tasks of one address space, on this machine and with your "
    "MPI: MPI_Sendrecv and ping-pong as processes and as tasks, interleaved, beside memcpy between "
    "two threads.\n"
    "\n"
    "      --mpi path|mpich|openmpi|all  path: the MPI of mpicc and mpiexec along PATH (default); "
    "mpich, openmpi: Debian's; all: every one that is found\n"
    "      --quick  fewer sizes and repeats: some seconds for each MPI\n"
    "      --repeats N  runs of processes and of tasks each; few of them scatter more\n"
    "      --fresh  send what has just been written, not the same buffer again and again\n"
    "      --json  print the results as JSON (onespace-bench/1) in place of the table\n"
    "  -h, --help\n"
    "\n"
    "Exit status: 0; 1 when something is missing or a run failed; 2 wrong usage.\n";

int command_bench(int argc, char **argv)
{
    static const char *mpi, *repeats;
    static int is_quick, is_fresh, is_json;
    static const struct command_option options[] = {
        {"mpi", .text = &mpi},        {"quick", .flag = &is_quick}, {"repeats", .text = &repeats},
        {"fresh", .flag = &is_fresh}, {"json", .flag = &is_json},   {NULL}};
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
    "\n"
    "Makes one page, for a browser or a printer, of all results that benchmarks have left: a "
    "figure for each question, the paper's figure and claim beside what was found, machine and "
    "versions.\n"
    "\n"
    "      --results DIRECTORY  with the JSON files of benchmarks; may be given several times "
    "(default: where benchmarks write them: ONESPACE_BENCH_RESULTS, else bench/results, in an "
    "installation ~/.cache/onespace/bench)\n"
    "  -o, --output FILE  the page (default: report.html in the first directory)\n"
    "  -h, --help\n"
    "\n"
    "Files that are not results are named and left out.\n"
    "Exit status: 0; 1 when no results are left or the page cannot be written; 2 wrong usage.\n";

int command_report(int argc, char **argv)
{
    static const char *results, *output, *const none[] = {NULL};
    static const struct command_option options[] = {
        {"results", .text = &results}, {"output", .text = &output, .letter = 'o'}, {NULL}};
    if (options_parse(argc, argv, options, report_help) != 0)
        return 2;
    if (optind < argc) {
        fprintf(stderr,
                "%s: unexpected '%s': directories are named with --results. Try `onespace report "
                "--help`.\n",
                argv[0], argv[optind]);
        return 2;
    }
    return driver_become(argc, argv, "lib/onespace_report.py", none);
}
