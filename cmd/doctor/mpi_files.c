/* cmd/doctor/mpi_files.c: see mpi_files.h. */
#include "cmd/doctor/mpi_files.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/doctor/doctor.h"

enum { LDCONFIG_TIMEOUT_MS = 5000 };

/* Python wheels cannot contain links: libmpi.so.12.0.0 is a copy of libmpi.so.12. */
static int is_copy(const char *path, const char *other)
{
    size_t length = strlen(other);
    struct stat ours, theirs;
    return strncmp(path, other, length) == 0 && path[length] == '.' && stat(path, &ours) == 0 &&
           stat(other, &theirs) == 0 && ours.st_size == theirs.st_size;
}

static void add_found(struct mpi_files *found, const char *name)
{
    char *real = realpath(name, NULL);
    int known = !real || found->count == MPI_FILES_MAX;
    for (unsigned i = 0; !known && i < found->count; i++)
        known = strcmp(found->paths[i], real) == 0 || is_copy(real, found->paths[i]);
    if (known) {
        free(real);
        return;
    }
    found->paths[found->count] = real;
    found->names[found->count] = strdup(name);
    found->count++;
}

void mpi_files_free(struct mpi_files *found)
{
    for (unsigned i = 0; i < found->count; i++) {
        free(found->names[i]);
        free(found->paths[i]);
    }
    found->count = 0;
}

void mpi_find_launchers(struct mpi_files *found)
{
    static const char *const names[] = {
        "mpiexec",       "mpirun",  "mpiexec.mpich", "mpiexec.openmpi",
        "mpiexec.hydra", "prterun", "srun"};
    const char *environment = getenv("VIRTUAL_ENV"), *path = getenv("PATH");
    char directories[2 * PATH_MAX], candidate[3 * PATH_MAX], *save;
    /* An active virtual environment's directory leads PATH; some activate it without changing PATH.
     */
    snprintf(directories, sizeof(directories), "%s%s%s", environment ? environment : "",
             environment ? "/bin:" : "", path ? path : "/usr/bin:/bin");
    for (char *directory = strtok_r(directories, ":", &save); directory;
         directory = strtok_r(NULL, ":", &save))
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            snprintf(candidate, sizeof(candidate), "%s/%s", directory, names[i]);
            if (access(candidate, X_OK) == 0)
                add_found(found, candidate);
        }
}

void mpi_find_libraries(struct mpi_files *found, const struct mpi_files *launchers)
{
    static char cache[1 << 20];
    char *argv[] = {"/sbin/ldconfig", "-p", NULL}, *save;
    static const char *const patterns[] = {"libmpi.so.*", "libmpich.so.*", "libmpi_abi.so.*",
                                           "openmpi/lib/libmpi.so.*"};
    char pattern[PATH_MAX + 64];
    /* Beside each launcher: installations that are not in the cache. They come first. */
    for (unsigned i = 0; i < launchers->count; i++) {
        char *bin = strrchr(launchers->names[i], '/');
        for (size_t p = 0; bin && p < sizeof(patterns) / sizeof(patterns[0]); p++) {
            glob_t hits;
            snprintf(pattern, sizeof(pattern), "%.*s/../lib/%s", (int)(bin - launchers->names[i]),
                     launchers->names[i], patterns[p]);
            if (glob(pattern, 0, NULL, &hits) == 0) {
                for (size_t h = 0; h < hits.gl_pathc; h++)
                    add_found(found, hits.gl_pathv[h]);
                globfree(&hits);
            }
        }
    }
    doctor_command(argv, cache, sizeof(cache), LDCONFIG_TIMEOUT_MS);
    for (char *line = strtok_r(cache, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *name = line + strspn(line, " \t"), *path = strstr(line, "=> ");
        if (path &&
            (strncmp(name, "libmpi.so.", 10) == 0 || strncmp(name, "libmpich.so.", 12) == 0 ||
             strncmp(name, "libmpi_abi.so.", 14) == 0))
            add_found(found, path + 3);
    }
}
