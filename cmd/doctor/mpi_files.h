/* cmd/doctor/mpi_files.h: finds the MPI launchers and libraries of this machine. */
#ifndef ONESPACE_CMD_DOCTOR_MPI_FILES_H
#define ONESPACE_CMD_DOCTOR_MPI_FILES_H

enum { MPI_FILES_MAX = 64 };

struct mpi_files { /* files by their real paths, each once */
    unsigned count;
    char *names[MPI_FILES_MAX]; /* as found */
    char *paths[MPI_FILES_MAX]; /* real */
};

/* Both add to *found, which starts as {0} and is freed with mpi_files_free. Launchers: along PATH.
 * Libraries: those beside the launchers come first, then those that ldconfig knows. */
void mpi_find_launchers(struct mpi_files *found);
void mpi_find_libraries(struct mpi_files *found, const struct mpi_files *launchers);
void mpi_files_free(struct mpi_files *found);

#endif
