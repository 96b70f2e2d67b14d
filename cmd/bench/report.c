/* cmd/bench/report.c: onespace report: executes the Python program that makes a page of benchmarks'
 * results. */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/lib/options.h"

const char report_help[] =
    "usage: onespace report [OPTION...]\n"
    "\n"
    "Makes one page, for a browser or a printer, of all benchmark results: a figure for each "
    "question, the paper's figure and claim beside the finding, machine and versions.\n"
    "\n"
    "      --results DIRECTORY  read the JSON files of this directory; may be given several "
    "times (default: ONESPACE_BENCH_RESULTS, else bench/results, in an installation "
    "~/.cache/onespace/bench)\n"
    "  -o, --output FILE  write this page (default: report.html in the first directory)\n"
    "  -h, --help  print this help\n"
    "\n"
    "Files that are not results are named and left out.\n"
    "Exit status: 0; 1 if no results are left or the page cannot be written; 2 on a usage "
    "error.\n";

enum { OPT_RESULTS = 256 };

static const struct option options[] = {
    {"results", required_argument, NULL, OPT_RESULTS},
    {"output", required_argument, NULL, 'o'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

int command_report(int argc, char **argv)
{
    /* The interpreter, the program, two words for each option at most, and the end. */
    char **words = calloc((size_t)(2 * argc) + 3, sizeof(*words));
    if (!words) {
        fprintf(stderr, "onespace report: out of memory: free some and try again\n");
        return 1;
    }
    int count = 2, status = 2;
    argv[0] = "onespace report"; /* for getopt's messages */
    for (int option; (option = options_next(argc, argv, "o:h", options)) != -1;) {
        if (option == 'h') {
            help_print(stdout, report_help);
            status = 0;
            goto out;
        }
        if (option == '?') {
            fprintf(stderr, "Try `onespace report --help`.\n");
            goto out;
        }
        words[count++] = option == 'o' ? "--output" : "--results";
        words[count++] = optarg;
    }
    if (optind < argc)
        fprintf(
            stderr,
            "onespace report: unexpected '%s': directories are named with --results. Try `onespace "
            "report --help`.\n",
            argv[optind]);
    else
        status = driver_become("report", "lib/onespace_report.py", words);
out:
    free(words);
    return status;
}
