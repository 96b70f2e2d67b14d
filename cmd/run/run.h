/* cmd/run/run.h: the command line of `onespace run`, which `onespace mpiexec` checks, too. */
#ifndef ONESPACE_CMD_RUN_RUN_H
#define ONESPACE_CMD_RUN_RUN_H

#include "launch/launch.h"

/* Fills *run, which is zeroed. 0, or -1 with a message. --help ends the process. */
int run_parse(int argc, char **argv, struct run_options *run);

/* If the word is an option of `onespace run` that `onespace mpiexec` takes, too: 1, or 2 if the
 * next word is its argument. Otherwise 0; counts and bindings are the launcher's. */
int run_option_words(const char *word);

/* Whether this is the name, or path, of an MPI launcher, which is no program for tasks. */
int run_is_launcher(const char *program);

#endif
