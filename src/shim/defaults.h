/* src/shim/defaults.h: settings that MPI libraries need in one address space. */
#ifndef ONESPACE_SHIM_DEFAULTS_H
#define ONESPACE_SHIM_DEFAULTS_H

/* Sets them in the environment of the calling process, except where the user did; says so on
 * standard error if verbose. ranks: of the job on this node. */
void defaults_set(unsigned ranks, int verbose);

#endif
