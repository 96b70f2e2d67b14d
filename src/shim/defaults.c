/* src/shim/defaults.c: see defaults.h. docs/launchers.md explains them. */
#include "shim/defaults.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name, *value, *why;
} defaults[] = {
    /* No more than what cannot work: a client of another set of stores than the job's server and
     * the programs that it spawns may not find these (MPI_Comm_spawn). */
    {"PMIX_MCA_gds", "^shmem,shmem2",
     "PMIx maps this shared store at one address that only one rank of a space can have"},
    {"MPIR_CVAR_SHM_SYMHEAP_RETRY", "0",
     "MPICH looks for one address that is free in all ranks: in a space there is none"},
};

void defaults_set(int verbose)
{
    for (unsigned i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        int given = getenv(defaults[i].name) != NULL;
        if (!given)
            setenv(defaults[i].name, defaults[i].value, 1);
        if (verbose)
            fprintf(stderr, "onespace run: %s %s=%s (%s)\n", given ? "left alone:" : "set",
                    defaults[i].name, getenv(defaults[i].name), defaults[i].why);
    }
}
