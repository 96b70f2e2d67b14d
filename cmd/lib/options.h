/* cmd/lib/options.h: the subcommands of `onespace`, their options and help texts. */
#ifndef ONESPACE_CMD_LIB_OPTIONS_H
#define ONESPACE_CMD_LIB_OPTIONS_H

#include <getopt.h>
#include <stdio.h>

/* ---- Subcommands ----
 *
 * Each gets its own name as argv[0] and returns an exit status. */

int command_run(int argc, char **argv);
int command_mpiexec(int argc, char **argv);
int command_ps(int argc, char **argv);
int command_map(int argc, char **argv);
int command_check(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_core(int argc, char **argv);
int command_gdb(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_report(int argc, char **argv);
int command_windows(int argc, char **argv);
int command_insitu(int argc, char **argv);
int command_completion(int argc, char **argv);
int command_host(int argc, char **argv); /* started by shims, not by users */

/* The texts of --help. */
extern const char run_help[], mpiexec_help[], ps_help[], map_help[], check_help[], doctor_help[],
    core_help[], gdb_help[], bench_help[], report_help[], windows_help[], insitu_help[],
    completion_help[];

struct command {
    const char *name;
    int (*function)(int argc, char **argv);
    const char *purpose; /* NULL: not for users */
    const char *help;
};

/* Ends with an entry without a name. */
extern const struct command commands[];

/* ---- Help texts ----
 *
 * A help text consists of lines: the synopsis, which begins with "usage: "; paragraphs; and rows,
 * which begin with a blank and have two blanks between the names and the explanation. Lines may
 * have any length: printing wraps and aligns them. The names of an option are followed by its
 * argument: a word in capitals, or its values in small letters with "|" between. Shell completions
 * are made from these texts. */

enum { HELP_WIDTH = 80 };

void help_print(FILE *out, const char *text);

/* One option of a help text. Pointers into it. */
struct help_option {
    const char *names; /* "-o, --output FILE" */
    int names_length;
    const char *text; /* to the end of the line; empty: none */
    int text_length;
};

/* Finds the next row of `text` that explains an option. Returns where to continue, or NULL. */
const char *help_next_option(const char *text, struct help_option *option);

/* The name that is most similar to `given`, or NULL if none is similar. next: returns the names by
 * index, and NULL at the end. */
const char *help_most_similar(const char *given, const char *(*next)(const void *names, int index),
                              const void *names);

/* ---- Options ---- */

/* Like getopt_long, but a long option must be written in full, because the options of the next
 * version could change the meaning of an abbreviation. For an abbreviation or an unknown option it
 * prints a message, with the most similar option, and returns '?'. -np means --np. */
int options_next(int argc, char **argv, const char *letters, const struct option *options);

/* ---- Subcommands that are Python programs, installed beside the command ---- */

/* Executes the program at `path` below share/onespace/bench, or, from the build tree, below its
 * source tree's bench. words: room for the interpreter and the program, then the program's
 * arguments, then NULL; the strings must live until then. ONESPACE_BIN tells the program which
 * command this is. Returns only when that fails: it has said why, and the value is the exit status.
 */
int driver_become(const char *subcommand, const char *path, char **words);

#endif
