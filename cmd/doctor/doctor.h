/* cmd/doctor/doctor.h: the parts of `onespace doctor`. Each checks one aspect of the machine and
 * reports what it found; none leaves anything behind. */
#ifndef ONESPACE_CMD_DOCTOR_DOCTOR_H
#define ONESPACE_CMD_DOCTOR_DOCTOR_H

#include <stddef.h>

/* ---- The report ---- */

enum doctor_status {
    DOCTOR_GOOD,
    DOCTOR_WARNING, /* works, but slower, with less protection, or not for all programs */
    DOCTOR_WRONG,   /* tasks cannot run, or not reliably */
};

/* One line of the report. fix: a sentence, or NULL when there is nothing to do. */
__attribute__((format(printf, 4, 5))) void doctor_say(enum doctor_status status,
                                                      const char *subject, const char *fix,
                                                      const char *finding, ...);

/* The status that is printed with this name; DOCTOR_WRONG if there is none. */
enum doctor_status doctor_status_from(const char *name);

void doctor_kernel(void);          /* kernel.c */
void doctor_calls(void);           /* kernel.c: system calls that may be forbidden */
void doctor_memory(void);          /* memory.c */
void doctor_limits(void);          /* memory.c: resource limits */
void doctor_ranks(unsigned ranks); /* memory.c: whether so many ranks fit */
void doctor_install(void);         /* install.c: agent, address region, interposition, sockets */
void doctor_trial(void);           /* install.c: runs a few tasks */
void doctor_xpmem(void);           /* install.c */
void doctor_mpi(void);             /* mpi.c: launchers and libraries */
void doctor_settings(void);        /* mpi.c: environment variables */
void doctor_storage(void);         /* storage.c */
/* network.c: two jobs. launcher: its command line, without the program. */
void doctor_network(const char *launcher);
/* job.c: all parts on each node of a job. launcher: the command line that starts one process on
 * each, or NULL: that of the batch system's allocation. */
void doctor_job(const char *launcher);

/* ---- job.c: the report of one node, for the command that started it there: the findings are kept,
 * and at the end printed as records ---- */

void job_add_finding(const char *status, const char *subject, const char *finding, const char *fix);
void job_write_findings(void);

/* ---- doctor.c: checks that may hang, crash or leave something behind run in a child ---- */

/* Runs function in a child, which may write an answer to its descriptor and whose standard output
 * and error are discarded. Its wait status, or -errno (-ETIMEDOUT: it was killed). answer is always
 * terminated. */
int doctor_child(void (*function)(int out, void *context), void *context, char *answer, size_t size,
                 int timeout_ms);
/* From now on a signal that ends this command ends the running child's process group, too, and
 * calls function, which may be NULL and only call what signal handlers may. */
void doctor_on_interrupt(void (*function)(void));
/* Runs a program and keeps the start of its output. The same result. */
int doctor_command(char *const argv[], char *output, size_t size, int timeout_ms);
/* Why a program failed, as far as its output tells: the last line with a word. Changes the output.
 */
const char *doctor_reason(char *output);

/* ---- mpi.c: which kind of launcher a program is ---- */

/* Launchers that have their options in common. */
enum mpi_family {
    MPI_FAMILY_UNKNOWN,
    MPI_FAMILY_HYDRA,   /* MPICH, Intel MPI, and others with MPICH's binary interface */
    MPI_FAMILY_OPENMPI, /* Open MPI's mpirun, PRRTE's prterun */
};

enum { MPI_KIND_SIZE = 128 };

/* Runs it with --version. 0, -ETIMEDOUT, or -EIO when it fails; then kind is what it said. */
int mpi_ask_launcher(const char *path, enum mpi_family *family, char kind[MPI_KIND_SIZE]);

enum { MPI_VERSION_TIMEOUT_MS = 20000 };

/* Calls visit for each library that ldconfig knows, until it returns another value than 0. */
void doctor_each_library(int (*visit)(const char *name, const char *path, void *context),
                         void *context);

#endif
