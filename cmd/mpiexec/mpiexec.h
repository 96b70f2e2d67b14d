/* cmd/mpiexec/mpiexec.h: where the options of a launcher end and its programs begin
 * (launcher_options.c). */
#ifndef ONESPACE_CMD_MPIEXEC_MPIEXEC_H
#define ONESPACE_CMD_MPIEXEC_MPIEXEC_H

#include "cmd/doctor/doctor.h"

enum { MPIEXEC_PARTS_MAX = 256 };

/* Between two ":": options of the launcher, then a program with its arguments. Indices of argv. */
struct mpiexec_part {
    int start, program, end;
    int separator; /* of the "--" before the program, or -1 */
};

enum { MPIEXEC_RUN_WORDS_MAX = 64 };

struct mpiexec_words {
    struct mpiexec_part parts[MPIEXEC_PARTS_MAX];
    int count;
    /* Indices of words among the launcher's options that are options of `onespace run`. */
    int run[MPIEXEC_RUN_WORDS_MAX], run_count;
    char problem[512]; /* what is wrong, and how to fix it */
};

/* Finds the program of each part by the options that launchers of this family have. Options
 * that only `onespace run` has are put aside. 0, or -EINVAL with words->problem: an option that is
 * not known, so that the word after it may belong to it. */
int mpiexec_split(enum mpi_family family, int argc, char **argv, struct mpiexec_words *words);

#endif
