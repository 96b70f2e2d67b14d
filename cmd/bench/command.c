/* cmd/bench/command.c: onespace bench: executes the benchmark's driver, a Python program. */
#include <stdio.h>

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

enum { OPT_MPI = 256, OPT_QUICK, OPT_REPEATS, OPT_FRESH, OPT_JSON };

static const struct option options[] = {
    {"mpi", required_argument, NULL, OPT_MPI},
    {"quick", no_argument, NULL, OPT_QUICK},
    {"repeats", required_argument, NULL, OPT_REPEATS},
    {"fresh", no_argument, NULL, OPT_FRESH},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

int command_bench(int argc, char **argv)
{
    char *command[20] = {NULL, NULL, "--mpi", "path"};
    int count = 4, plots = 1;
    argv[0] = "onespace bench"; /* for getopt's messages */
    for (int option; (option = options_next(argc, argv, "h", options)) != -1;) {
        if (option == 'h') {
            help_print(stdout, bench_help);
            return 0;
        }
        if (option == '?' || count > 12) {
            fprintf(stderr, "Try `onespace bench --help`.\n");
            return 2;
        }
        if (option == OPT_MPI)
            command[3] = optarg;
        else
            command[count++] = option == OPT_QUICK     ? "--quick"
                               : option == OPT_REPEATS ? "--repeats"
                               : option == OPT_FRESH   ? "--fresh"
                                                       : "--json";
        if (option == OPT_REPEATS)
            command[count++] = optarg;
        plots &= option != OPT_JSON;
    }
    if (optind < argc) {
        fprintf(stderr, "onespace bench: unexpected '%s'. Try `onespace bench --help`.\n",
                argv[optind]);
        return 2;
    }
    if (!plots)
        command[count++] = "--no-plot";
    return driver_become("bench", "p2p/run", command);
}
