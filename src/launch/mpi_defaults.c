/* src/launch/mpi_defaults.c: see defaults.h. docs/launchers-reference.md explains them. */
#include "launch/launch.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/capacity.h"
#include "reaper/reaper.h"
#include "spawn/spawn.h"

/* Only privileged processes may open the descriptors of an undumpable process. */
static int is_undumpable(unsigned ranks)
{
    (void)ranks;
    return must_clear_dumpable(getenv("ONESPACE_DUMPABLE"));
}

/* Files that the drivers make of cards that compute: the first render node of DRI, NVIDIA's, AMD's
 * and that of Windows. */
static int has_graphics(unsigned ranks)
{
    static const char *const files[] = {"/dev/dri/renderD128", "/dev/nvidiactl", "/dev/kfd",
                                        "/dev/dxg"};
    (void)ranks;
    for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (access(files[i], F_OK) == 0)
            return 1;
    return 0;
}

static int has_no_graphics(unsigned ranks)
{
    return !has_graphics(ranks);
}

/* hwloc has a parser of its own, which reads what hwloc has written. */
#define HWLOC_XML "hwloc_xml_libxml.so"
/* They look for graphics cards and their displays. */
#define HWLOC_GRAPHICS                                                                             \
    "hwloc_opencl.so,hwloc_gl.so,hwloc_cuda.so,hwloc_nvml.so,hwloc_rsmi.so,hwloc_levelzero.so"

static const struct {
    const char *name, *value;
    int (*is_needed)(unsigned ranks); /* NULL: always */
} defaults[] = {
    /* PMIx maps this shared store at one address that only one rank of a space can have. No more
     * than what cannot work: a client of another set of stores than the job's server and the
     * programs that it spawns may not find these (MPI_Comm_spawn). */
    {"PMIX_MCA_gds", "^shmem,shmem2", NULL},
    /* MPICH looks for one address that is free in all ranks: in a space there is none. */
    {"MPIR_CVAR_SHM_SYMHEAP_RETRY", "0", NULL},
    /* Plugins of MPI libraries' hwloc load other libraries, whose mappings are nearly half of a
     * rank's and take a quarter of MPI_Init. */
    {"HWLOC_PLUGINS_BLACKLIST", HWLOC_XML "," HWLOC_GRAPHICS, has_no_graphics},
    {"HWLOC_PLUGINS_BLACKLIST", HWLOC_XML, has_graphics},
    /* So many ranks have mappings enough only if each has fewer: without any plugin of hwloc,
     * without components of Open MPI 4 that do nothing unless they are asked for or
     * belong to other systems' launchers, and without heaps of its libraries' threads. */
    {"HWLOC_PLUGINS_PATH", "/nonexistent", capacity_mappings_are_scarce},
    {"OMPI_MCA_coll", "^adapt,sync", capacity_mappings_are_scarce},
    {"OMPI_MCA_schizo", "^jsm,flux", capacity_mappings_are_scarce},
    {"MALLOC_ARENA_MAX", "1", capacity_mappings_are_scarce},
    /* UCX opens the shared memory of other ranks in /proc/PID/fd, which tasks may not. */
    {"UCX_POSIX_USE_PROC_LINK", "n", is_undumpable},
};

enum { COUNT = sizeof(defaults) / sizeof(defaults[0]) };

/* Where Open MPI looks for components; the words stand for the default, which setting the variable
 * replaces. */
#define COMPONENT_PATH    "OMPI_MCA_mca_base_component_path"
#define COMPONENT_DEFAULT "SYSTEM_DEFAULT:USER_DEFAULT"

/* With the directory of src/smsc's component before what the user or the default names: Open MPI
 * ends its search at a directory that is not there. NULL: it has that already, or there is none. To
 * be freed. */
static char *component_path(void)
{
    char path[PATH_MAX], *added;
    const char *given = getenv(COMPONENT_PATH), *rest;
    agent_sibling_path("onespace/openmpi/mca_smsc_onespace.so", path, sizeof(path));
    if (!path[0] || strchr(path, ':'))
        return NULL;
    *strrchr(path, '/') = 0;
    rest = given && strncmp(given, path, strlen(path)) == 0 ? given + strlen(path) : NULL;
    if (rest && (*rest == ':' || !*rest))
        return NULL; /* by the task that runs this */
    return asprintf(&added, "%s:%s", path, given ? given : COMPONENT_DEFAULT) < 0 ? NULL : added;
}

static int is_needed(unsigned i, unsigned ranks)
{
    return !defaults[i].is_needed || defaults[i].is_needed(ranks);
}

void mpi_defaults_set(unsigned ranks)
{
    char *path = component_path();
    if (path)
        setenv(COMPONENT_PATH, path, 1);
    free(path);
    for (unsigned i = 0; i < COUNT; i++)
        if (is_needed(i, ranks))
            setenv(defaults[i].name, defaults[i].value, 0);
}

void mpi_defaults_describe(unsigned ranks, char *words, size_t size)
{
    char *path = component_path();
    size_t used = 0;
    words[0] = 0;
    if (path)
        used = (size_t)snprintf(words, size, "set %s=%s", COMPONENT_PATH, path);
    free(path);
    for (unsigned i = 0; i < COUNT && used < size; i++) {
        const char *given = getenv(defaults[i].name);
        if (is_needed(i, ranks))
            used += (size_t)snprintf(words + used, size - used, "%s%s %s=%s", used ? ", " : "",
                                     given ? "left alone:" : "set", defaults[i].name,
                                     given ? given : defaults[i].value);
    }
}
