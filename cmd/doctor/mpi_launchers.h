/* cmd/doctor/mpi_launchers.h: what a launcher says that it is. */
#ifndef ONESPACE_CMD_DOCTOR_MPI_LAUNCHERS_H
#define ONESPACE_CMD_DOCTOR_MPI_LAUNCHERS_H

#include <stddef.h>

/* Launchers that have their options in common. */
enum mpi_family {
    MPI_FAMILY_UNKNOWN,
    MPI_FAMILY_HYDRA,   /* MPICH, Intel MPI, and others with MPICH's binary interface */
    MPI_FAMILY_OPENMPI, /* Open MPI's mpirun, PRRTE's prterun */
};

enum { MPI_KIND_SIZE = 128 };

/* Copies the word after `before` in text, up to a blank or one of ",)". 0 or -1. */
int word_after(const char *text, const char *before, char *word, size_t size);

/* The kind of launcher that printed this with --version, for people. */
enum mpi_family mpi_name_launcher(const char *output, char kind[MPI_KIND_SIZE]);

/* Runs it with --version. 0, -ETIMEDOUT, or -EIO when it fails; then kind is what it said. */
int mpi_ask_launcher(const char *path, enum mpi_family *family, char kind[MPI_KIND_SIZE]);

enum { MPI_VERSION_TIMEOUT_MS = 5000 };

#endif
