/* src/shim/launcher.h: what started us, and which space our rank belongs to. */
#ifndef ONESPACE_SHIM_LAUNCHER_H
#define ONESPACE_SHIM_LAUNCHER_H

#include <stddef.h>

struct launcher {
    int is_rank;                /* a launcher started us as one of its ranks */
    const char *kind;           /* "hydra", "pmix", "openmpi", "slurm", ... for --verbose */
    int local_rank, local_size; /* on this node, -1 if it does not say */
    const char *rank_variable, *size_variable; /* that say it, or NULL */
    int daemon;         /* pid of the launcher's process that the space is named after, or 0 */
    char space[64];     /* the name of the space; fits into a socket's path */
    char found_by[128]; /* how that name was found, for --verbose */
};

/* Looks at the environment and the ancestors. Never fails. */
void launcher_find(struct launcher *launcher);
/* Slurm's list of tasks per node, "2(x3),1" for 2,2,2,1: the entry of that node, counted from 0, or
 * -1 when there is none. */
int launcher_slurm_tasks(const char *list, int node);

#endif
