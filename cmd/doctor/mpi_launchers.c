/* cmd/doctor/mpi_launchers.c: see mpi_launchers.h. */
#include "cmd/doctor/mpi_launchers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cmd/doctor/doctor.h"

int word_after(const char *text, const char *before, char *word, size_t size)
{
    const char *at = strstr(text, before);
    if (!at)
        return -1;
    at += strlen(before);
    at += strspn(at, " \t");
    snprintf(word, size, "%.*s", (int)strcspn(at, " \t\n,)"), at);
    return word[0] ? 0 : -1;
}

static const struct {
    const char *mark, *before, *name;
    enum mpi_family family;
} kinds[] = {
    {"(Open MPI)", "(Open MPI)", "Open MPI", MPI_FAMILY_OPENMPI},
    {"(OpenRTE)", "(OpenRTE)", "Open MPI", MPI_FAMILY_OPENMPI},
    {"Intel(R) MPI", "Version", "Intel MPI", MPI_FAMILY_HYDRA},
    {"HYDRA", "Version:", "MPICH's Hydra", MPI_FAMILY_HYDRA},
    {"slurm", "slurm", "Slurm", MPI_FAMILY_UNKNOWN},
    {"(PRRTE)", "(PRRTE)", "PRRTE", MPI_FAMILY_OPENMPI},
};

enum mpi_family mpi_name_launcher(const char *output, char kind[MPI_KIND_SIZE])
{
    char version[64];
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strstr(output, kinds[i].mark) &&
            word_after(output, kinds[i].before, version, sizeof(version)) == 0) {
            snprintf(kind, MPI_KIND_SIZE, "%s %s", kinds[i].name, version);
            return kinds[i].family;
        }
    snprintf(kind, MPI_KIND_SIZE, "of a kind that this command does not know");
    return MPI_FAMILY_UNKNOWN;
}

int mpi_ask_launcher(const char *path, enum mpi_family *family, char kind[MPI_KIND_SIZE])
{
    char output[2048];
    char *argv[] = {(char *)path, "--version", NULL};
    int status = doctor_command(argv, output, sizeof(output), MPI_VERSION_TIMEOUT_MS);
    *family = MPI_FAMILY_UNKNOWN;
    if (status == -ETIMEDOUT)
        return status;
    if (status < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        snprintf(kind, MPI_KIND_SIZE, "%.*s", (int)strcspn(output, "\n"), output);
        return -EIO;
    }
    *family = mpi_name_launcher(output, kind);
    return 0;
}
