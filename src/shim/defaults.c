/* src/shim/defaults.c: see defaults.h. docs/launchers.md explains them. */
#include "shim/defaults.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/room/room.h"
#include "task/dumpable.h"
#include "task/spawn/agent_path.h"

/* Only privileged processes may open the descriptors of an undumpable process. */
static int is_undumpable(unsigned ranks)
{
    (void)ranks;
    return dumpable_must_end(getenv("ONESPACE_DUMPABLE"));
}

static const struct {
    const char *name, *value, *why;
    int (*is_needed)(unsigned ranks); /* NULL: always */
} defaults[] = {
    /* No more than what cannot work: a client of another set of stores than the job's server and
     * the programs that it spawns may not find these (MPI_Comm_spawn). */
    {"PMIX_MCA_gds", "^shmem,shmem2",
     "PMIx maps this shared store at one address that only one rank of a space can have", NULL},
    {"MPIR_CVAR_SHM_SYMHEAP_RETRY", "0",
     "MPICH looks for one address that is free in all ranks: in a space there is none", NULL},
    {"HWLOC_PLUGINS_PATH", "/nonexistent",
     "so many ranks have mappings enough only without hwloc's plugins for graphics cards",
     room_lacks_plugins},
    {"UCX_POSIX_USE_PROC_LINK", "n",
     "UCX opens the shared memory of other ranks in /proc/PID/fd, which tasks may not before Linux "
     "5.16",
     is_undumpable},
};

/* Where Open MPI looks for components; the words stand for the default, which setting the variable
 * replaces. */
#define COMPONENT_PATH    "OMPI_MCA_mca_base_component_path"
#define COMPONENT_DEFAULT "SYSTEM_DEFAULT:USER_DEFAULT"
#define COMPONENT_WHY     "Open MPI 5 and 6 find onespace's component there"

static void say(const char *what, const char *name, const char *why)
{
    fprintf(stderr, "onespace run: %s %s=%s (%s)\n", what, name, getenv(name), why);
}

/* Adds the directory with src/smsc's component to what the user or the default names. It comes
 * first, since Open MPI ends its search at a directory that is not there; all names differ. */
static void add_component_path(int verbose)
{
    static const char component[] = "onespace/openmpi/mca_smsc_onespace.so";
    char path[PATH_MAX], *added;
    const char *given = getenv(COMPONENT_PATH);
    agent_path_beside(component, path, sizeof(path));
    if (!path[0] || strchr(path, ':'))
        return;
    *strrchr(path, '/') = 0;
    if (given && strncmp(given, path, strlen(path)) == 0)
        return; /* by the task that runs this */
    if (asprintf(&added, "%s:%s", path, given ? given : COMPONENT_DEFAULT) < 0)
        return;
    setenv(COMPONENT_PATH, added, 1);
    if (verbose)
        say("set", COMPONENT_PATH, COMPONENT_WHY);
    free(added);
}

void defaults_set(unsigned ranks, int verbose)
{
    add_component_path(verbose);
    for (unsigned i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        if (defaults[i].is_needed && !defaults[i].is_needed(ranks))
            continue;
        int given = getenv(defaults[i].name) != NULL;
        if (!given)
            setenv(defaults[i].name, defaults[i].value, 1);
        if (verbose)
            say(given ? "left alone:" : "set", defaults[i].name, defaults[i].why);
    }
}
