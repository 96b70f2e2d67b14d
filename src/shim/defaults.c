/* src/shim/defaults.c: see defaults.h. docs/launchers.md explains them. */
#include "shim/defaults.h"

#include <stdio.h>
#include <stdlib.h>

#include "host/room/room.h"

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
};

void defaults_set(unsigned ranks, int verbose)
{
    for (unsigned i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        if (defaults[i].is_needed && !defaults[i].is_needed(ranks))
            continue;
        int given = getenv(defaults[i].name) != NULL;
        if (!given)
            setenv(defaults[i].name, defaults[i].value, 1);
        if (verbose)
            fprintf(stderr, "onespace run: %s %s=%s (%s)\n", given ? "left alone:" : "set",
                    defaults[i].name, getenv(defaults[i].name), defaults[i].why);
    }
}
