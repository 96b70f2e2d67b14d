/* cmd/mpiexec/mpiexec.h: the parts of `onespace mpiexec`. */
#ifndef ONESPACE_CMD_MPIEXEC_MPIEXEC_H
#define ONESPACE_CMD_MPIEXEC_MPIEXEC_H

#include <limits.h>

#include "cmd/doctor/doctor.h"

/* ---- launcher_options.c: where a launcher's options end ---- */

enum { MPIEXEC_PARTS_MAX = 256 };

/* Between two ":": options of the launcher, then a program with its arguments. Indices of argv. */
struct mpiexec_part {
    int start, program, end;
    int separator; /* of the "--" before the program, or -1 */
};

struct mpiexec_words {
    struct mpiexec_part parts[MPIEXEC_PARTS_MAX];
    int count;
    char problem[512]; /* what is wrong, and how to fix it */
};

/* Finds the program of each part by the options that launchers of this family have. 0, or -EINVAL
 * with words->problem: an option that is not known, so that the word after it may belong to it. */
int mpiexec_split(enum mpi_family family, int argc, char **argv, struct mpiexec_words *words);

/* ---- mpiexec.c: the MPI library of a program ---- */

struct mpiexec_library {
    char path[PATH_MAX];    /* of its libmpi, empty: it needs none */
    enum mpi_family family; /* whose launchers can start it; MPI_FAMILY_UNKNOWN: all can */
    char command[PATH_MAX]; /* the program, or the interpreter of a script, as the user named it
                               or PATH has it; empty: not found */
};

/* Asks the program's own dynamic linker. 0; -ENOEXEC with a message: it cannot be a task. What is
 * not found here may be there where the launcher starts it. */
int mpiexec_library(const char *program, struct mpiexec_library *library, char *message, int size);

/* The command as it was named, with the directory where PATH has it: links are not followed, since
 * a virtual environment's interpreter is a link out of it. Empty: not found. */
void mpiexec_name_command(const char *name, char command[PATH_MAX]);

/* ---- mpiexec.c: the launcher ---- */

struct mpiexec_launcher {
    char path[PATH_MAX];
    enum mpi_family family;
    char kind[MPI_KIND_SIZE];
    int is_guess; /* nothing says that it is the program's MPI's */
};

/* The one that the user named. 0 or -ENOENT with a message. */
int mpiexec_named(const char *name, struct mpiexec_launcher *launcher, char *message, int size);
/* The launcher of this MPI library: in a bin directory above it, else in PATH. For a program
 * without an MPI library: beside it, if that is a Python environment, else the mpiexec in PATH. 0
 * or -ENOENT with a message. */
int mpiexec_choose(const struct mpiexec_library *library, struct mpiexec_launcher *launcher,
                   char *message, int size);

#endif
