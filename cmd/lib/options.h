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
int command_clean(int argc, char **argv);
int command_core(int argc, char **argv);
int command_gdb(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_report(int argc, char **argv);
int command_windows(int argc, char **argv);
int command_insitu(int argc, char **argv);
int command_completion(int argc, char **argv);

/* The texts of --help. */
extern const char run_help[], mpiexec_help[], ps_help[], map_help[], check_help[], doctor_help[],
    clean_help[], core_help[], gdb_help[], bench_help[], report_help[], windows_help[],
    insitu_help[], completion_help[];

struct command {
    const char *name;
    int (*function)(int argc, char **argv);
    const char *purpose;
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

/* An option of a subcommand, in a table that ends with an option without a name. */
struct command_option {
    const char *name;  /* without the "--" */
    int *flag;         /* set to 1; NULL for an option with an argument */
    const char **text; /* set to the argument; NULL: it has none */
    char letter;       /* the short name, or 0 */
};

enum { OPTIONS_MAX = 12 };

/* Reads the options of a subcommand, whose argv[0] is its name in messages. 0, and then
 * argv[optind] is the first of the other words; or 2, the exit status, with a message. --help
 * prints `help` and exits. */
int options_parse(int argc, char **argv, const struct command_option *options, const char *help);

/* Prints "COMMAND: PROBLEM. Try `COMMAND --help`." Returns 2, the exit status. */
int options_refuse(const char *command, const char *problem);

/* ---- Subcommands that are Python programs, installed beside the command ---- */

enum { DRIVER_WORDS_MAX = 4 };

/* Executes the program at `path` below share/onespace/bench, or, from the build tree, below its
 * source tree's bench. Its arguments are `first`, at most DRIVER_WORDS_MAX and NULL, and those of
 * argv. ONESPACE_BIN tells the program which command this is. Returns only when that fails: an exit
 * status, with a message that begins with argv[0]. */
int driver_become(int argc, char **argv, const char *path, const char *const first[]);

#endif
