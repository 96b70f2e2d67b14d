/* cmd/mpiexec/launcher.c: which launcher starts the ranks of a program. */
#include "cmd/mpiexec/mpiexec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {"mpiexec.mpich", "mpiexec.hydra", "mpiexec.openmpi",
                                    "mpiexec",       "mpirun",        NULL};
/* For a program that names no MPI library: what the user means by these. */
static const char *const plain_names[] = {"mpiexec", "mpirun", NULL};

/* Whether the file is a launcher that starts ranks of this family; MPI_FAMILY_UNKNOWN: of any. */
static int try_file(const char *path, enum mpi_family wanted, struct mpiexec_launcher *launcher)
{
    if (access(path, X_OK) != 0 || mpi_ask_launcher(path, &launcher->family, launcher->kind) != 0)
        return 0;
    if (wanted != MPI_FAMILY_UNKNOWN && launcher->family != wanted)
        return 0;
    snprintf(launcher->path, sizeof(launcher->path), "%s", path);
    return 1;
}

static int try_directory(const char *directory, int length, const char *const candidates[],
                         enum mpi_family wanted, struct mpiexec_launcher *launcher)
{
    char path[PATH_MAX];
    for (size_t i = 0; candidates[i]; i++)
        if (snprintf(path, sizeof(path), "%.*s/%s", length, directory, candidates[i]) <
                (int)sizeof(path) &&
            try_file(path, wanted, launcher))
            return 1;
    return 0;
}

static int try_path(const char *const candidates[], enum mpi_family wanted,
                    struct mpiexec_launcher *launcher)
{
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/bin:/usr/bin"; *at; at += *at == ':') {
        size_t length = strcspn(at, ":");
        if (length && try_directory(at, (int)length, candidates, wanted, launcher))
            return 1;
        at += length;
    }
    return 0;
}

/* Whether only root and this user decide what the path names: theirs are the file and all
 * directories above, and no other user may write there. In a directory with the sticky bit, such as
 * /tmp, other users cannot replace what is below, but the prefix and its bin must not be such. */
static int is_ours_alone(const char *path)
{
    char *real = realpath(path, NULL);
    struct stat status;
    int is_safe = real != NULL;
    for (unsigned above = 0; is_safe && *real; above++) {
        is_safe = stat(real, &status) == 0 && (status.st_uid == 0 || status.st_uid == geteuid()) &&
                  (!(status.st_mode & S_IWOTH) || (above > 2 && (status.st_mode & S_ISVTX)));
        *strrchr(real, '/') = 0;
    }
    free(real);
    return is_safe;
}

/* PREFIX/lib/libmpi.so.12, PREFIX/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so.40, …: PREFIX/bin. The
 * candidates are executed to learn of what kind they are. */
static int try_above(const char *library, enum mpi_family wanted, struct mpiexec_launcher *launcher)
{
    char *real = realpath(library, NULL), path[PATH_MAX];
    int found = 0;
    for (char *slash; real && !found && (slash = strrchr(real, '/')); *slash = 0) {
        const char *name = slash + 1;
        if (strcmp(name, "lib") != 0 && strcmp(name, "lib64") != 0)
            continue;
        for (size_t i = 0; names[i] && !found; i++)
            found = snprintf(path, sizeof(path), "%.*s/bin/%s", (int)(slash - real), real,
                             names[i]) < (int)sizeof(path) &&
                    is_ours_alone(path) && try_file(path, wanted, launcher);
    }
    free(real);
    return found;
}

int mpiexec_named(const char *name, struct mpiexec_launcher *launcher, char *message, int size)
{
    const char *const only[] = {name, NULL};
    *launcher = (struct mpiexec_launcher){.is_guess = 0};
    if (strchr(name, '/') ? try_file(name, MPI_FAMILY_UNKNOWN, launcher)
                          : try_path(only, MPI_FAMILY_UNKNOWN, launcher))
        return 0;
    if (launcher->kind[0])
        snprintf(message, (size_t)size, "--launcher %s: %s --version fails: %s", name, name,
                 launcher->kind);
    else
        snprintf(message, (size_t)size,
                 "--launcher %s: there is no such program that answers to --version", name);
    return -ENOENT;
}

/* Whether the directory is bin of a Python environment, whose packages belong together. */
static int is_environment(const char *directory, int length)
{
    static const char *const marks[] = {"../pyvenv.cfg", "../conda-meta"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (snprintf(path, sizeof(path), "%.*s/%s", length, directory, marks[i]) <
                (int)sizeof(path) &&
            access(path, F_OK) == 0)
            return 1;
    return 0;
}

static int guess(const struct mpiexec_library *library, struct mpiexec_launcher *launcher)
{
    const char *directory = library->command, *slash = strrchr(directory, '/');
    int length = slash ? (int)(slash - directory) : 0;
    launcher->is_guess = 1;
    return (slash && is_environment(directory, length) &&
            try_directory(directory, length, plain_names, MPI_FAMILY_UNKNOWN, launcher)) ||
           try_path(plain_names, MPI_FAMILY_UNKNOWN, launcher);
}

int mpiexec_choose(const struct mpiexec_library *library, struct mpiexec_launcher *launcher,
                   char *message, int size)
{
    *launcher = (struct mpiexec_launcher){.is_guess = 0};
    if (!library->path[0]) {
        if (guess(library, launcher))
            return 0;
        snprintf(message, (size_t)size,
                 "there is no mpiexec in PATH: name the launcher of your MPI with --launcher");
        return -ENOENT;
    }
    if (try_above(library->path, library->family, launcher) ||
        try_path(names, library->family, launcher))
        return 0;
    snprintf(message, (size_t)size,
             "no launcher of %.1024s is beside it or in PATH: name it with --launcher",
             library->path);
    return -ENOENT;
}
