/* src/launch/mpi_defaults.c: settings that MPI libraries need in one address space.
 * docs/launchers-reference.md explains them. */
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

/* Device files of GPUs: the first render node of DRI, NVIDIA's, AMD's and that of WSL. */
static int has_gpu(unsigned ranks)
{
    static const char *const files[] = {"/dev/dri/renderD128", "/dev/nvidiactl", "/dev/kfd",
                                        "/dev/dxg"};
    (void)ranks;
    for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (access(files[i], F_OK) == 0)
            return 1;
    return 0;
}

static int has_no_gpu(unsigned ranks)
{
    return !has_gpu(ranks);
}

/* HPE's monitor for libfabric, which reports unmapping by any means, is preferred by libfabric. */
static int has_no_kdreg2(unsigned ranks)
{
    (void)ranks;
    return access("/dev/kdreg2", F_OK) != 0;
}

/* Launchers may have bound this process to fewer CPUs than its job has. */
static int outnumber_cpus(unsigned ranks)
{
    return (long)ranks > sysconf(_SC_NPROCESSORS_ONLN);
}

/* hwloc's built-in parser reads the XML that hwloc writes. */
#define HWLOC_XML_PLUGIN "hwloc_xml_libxml.so"
/* These search for GPUs and their displays. */
#define HWLOC_GPU_PLUGINS                                                                          \
    "hwloc_opencl.so,hwloc_gl.so,hwloc_cuda.so,hwloc_nvml.so,hwloc_rsmi.so,hwloc_levelzero.so"

static const struct {
    const char *name, *value;
    int (*is_needed)(unsigned ranks); /* NULL: always */
} defaults[] = {
    /* PMIx maps these shared stores at one address, which only one rank of a space can have. Only
     * these two are excluded: a client with another set of stores than the job's server may not
     * find the programs that it spawns (MPI_Comm_spawn). */
    {"PMIX_MCA_gds", "^shmem,shmem2", NULL},
    /* MPICH searches for one address that is free in all ranks; in a space there is none. */
    {"MPIR_CVAR_SHM_SYMHEAP_RETRY", "0", NULL},
    /* Plugins of the MPI libraries' hwloc load other libraries, which have nearly half of a rank's
     * mappings and take a quarter of the time of MPI_Init. */
    {"HWLOC_PLUGINS_BLACKLIST", HWLOC_XML_PLUGIN "," HWLOC_GPU_PLUGINS, has_no_gpu},
    {"HWLOC_PLUGINS_BLACKLIST", HWLOC_XML_PLUGIN, has_gpu},
    /* So many ranks fit only if each has fewer mappings: without plugins of hwloc, without
     * components of Open MPI 4 that do nothing by default or belong to other systems' launchers,
     * and without separate heaps for its libraries' threads. */
    {"HWLOC_PLUGINS_PATH", "/nonexistent", capacity_mappings_are_scarce},
    {"OMPI_MCA_coll", "^adapt,sync", capacity_mappings_are_scarce},
    {"OMPI_MCA_schizo", "^jsm,flux", capacity_mappings_are_scarce},
    {"MALLOC_ARENA_MAX", "1", capacity_mappings_are_scarce},
    /* A rank that waits gives its CPU away: Open MPI does so only where mpirun knows that ranks
     * outnumber CPUs. What MPICH needs is in src/mpi/wrap/waits.c. */
    {"OMPI_MCA_mpi_yield_when_idle", "1", outnumber_cpus},
    /* libfabric watches registered memory by a userfaultfd if it can. The kernel allows one for
     * each mapping, so only one rank of a space could watch a mapping; and each unmapping would
     * wait for the watching rank. Its other monitor hooks functions of the rank's libc. */
    {"FI_MR_CACHE_MONITOR", "memhooks", has_no_kdreg2},
    /* UCX opens the shared memory of other ranks in /proc/PID/fd, which an undumpable space
       forbids. */
    {"UCX_POSIX_USE_PROC_LINK", "n", is_undumpable},
};

enum { COUNT = sizeof(defaults) / sizeof(defaults[0]) };

/* Where Open MPI searches for components. Setting the variable replaces the default, which these
 * words mean. */
#define COMPONENT_PATH    "OMPI_MCA_mca_base_component_path"
#define COMPONENT_DEFAULT "SYSTEM_DEFAULT:USER_DEFAULT"

/* The path with the directory of src/smsc's component in front of the user's or the default one,
 * because Open MPI ends its search at a missing directory. NULL: it is there already, or the
 * component is not installed. The caller frees it. */
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
        return NULL; /* set by the task that runs this process */
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

int mpi_defaults_set_threads(void)
{
    return setenv("MPIR_CVAR_DEFAULT_THREAD_LEVEL", "MPI_THREAD_MULTIPLE", 0) ||
           setenv("OMPI_MPI_THREAD_LEVEL", "3", 0);
}

void mpi_defaults_describe(unsigned ranks, char *text, size_t size)
{
    char *path = component_path();
    size_t used = 0;
    text[0] = 0;
    if (path)
        used = (size_t)snprintf(text, size, "set %s=%s", COMPONENT_PATH, path);
    free(path);
    for (unsigned i = 0; i < COUNT && used < size; i++) {
        const char *given = getenv(defaults[i].name);
        if (is_needed(i, ranks))
            used += (size_t)snprintf(text + used, size - used, "%s%s %s=%s", used ? ", " : "",
                                     given ? "left alone:" : "set", defaults[i].name,
                                     given ? given : defaults[i].value);
    }
}
