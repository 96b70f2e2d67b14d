/* cmd/mpiexec/library.c: the MPI library that a program needs. Its own dynamic linker says which
 * file that is, with all that RUNPATH and LD_LIBRARY_PATH do, and does not run the program for it.
 */
#include "cmd/mpiexec/mpiexec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/doctor/doctor.h"
#include "spawn/spawn.h"

enum { LIST_TIMEOUT_MS = 5000 };

/* Names of libraries with MPI_Init in them, up to a ".", and whose launchers start their ranks. */
static const struct {
    const char *name;
    enum mpi_family family;
} libraries[] = {
    {"libmpi.so.12", MPI_FAMILY_HYDRA}, /* the common binary interface of MPICH and others */
    {"libmpich.so", MPI_FAMILY_HYDRA},
    {"libmpi_abi.so", MPI_FAMILY_UNKNOWN},
    {"libmpi.so", MPI_FAMILY_OPENMPI},
};

static int is_name(const char *name, size_t length, const char *wanted)
{
    size_t size = strlen(wanted);
    return length >= size && strncmp(name, wanted, size) == 0 &&
           (length == size || name[size] == '.');
}

/* One line of the list: "\tNAME => PATH (0xADDRESS)". 1 when it is an MPI library. */
static int read_line(const char *line, struct mpiexec_library *library)
{
    const char *name = line + strspn(line, " \t"), *arrow = strstr(name, " => ");
    size_t length = strcspn(name, " ");
    if (!arrow || arrow[4] != '/')
        return 0;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (is_name(name, length, libraries[i].name)) {
            const char *end = strstr(arrow + 4, " (0x");
            snprintf(library->path, sizeof(library->path), "%.*s",
                     end ? (int)(end - arrow - 4) : (int)strlen(arrow + 4), arrow + 4);
            library->family = libraries[i].family;
            return 1;
        }
    return 0;
}

static void ask_linker(const struct elf_program *program, struct mpiexec_library *library)
{
    static char list[1 << 18];
    char *argv[] = {(char *)program->interpreter_path, "--list", (char *)program->path, NULL};
    char *save;
    if (doctor_command(argv, list, sizeof(list), LIST_TIMEOUT_MS) != 0)
        return;
    for (char *line = strtok_r(list, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (read_line(line, library))
            return;
}

static int is_program(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

void mpiexec_name_command(const char *name, char command[PATH_MAX])
{
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];
    command[0] = 0;
    if (strchr(name, '/')) {
        snprintf(command, PATH_MAX, "%s", name);
        return;
    }
    for (const char *at = path ? path : "/bin:/usr/bin"; *at; at += *at == ':') {
        size_t length = strcspn(at, ":");
        int size = snprintf(candidate, sizeof(candidate), "%.*s/%s", (int)length, at, name);
        if (length && size < PATH_MAX && is_program(candidate)) {
            memcpy(command, candidate, (size_t)size + 1);
            return;
        }
        at += length;
    }
}

int mpiexec_library(const char *program, struct mpiexec_library *library, char *message, int size)
{
    static struct elf_program found;
    struct elf_problem problem;
    char *argv[] = {(char *)program, NULL};
    *library = (struct mpiexec_library){.family = MPI_FAMILY_UNKNOWN};
    int status = resolve_program(AT_FDCWD, program, argv, getenv("PATH"), &found, &problem);
    if (status == -ENOEXEC) {
        snprintf(message, (size_t)size, "%s: %s: %s", program, problem.reason, problem.fix);
        return status;
    }
    if (status < 0)
        return 0;
    mpiexec_name_command(found.argv[0], library->command);
    if (!found.requested_path[0] && found.interpreter_path[0])
        ask_linker(&found, library);
    elf_program_free(&found);
    return 0;
}
