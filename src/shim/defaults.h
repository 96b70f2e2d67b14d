/* src/shim/defaults.h: settings that MPI libraries need in one address space. */
#ifndef ONESPACE_SHIM_DEFAULTS_H
#define ONESPACE_SHIM_DEFAULTS_H

#include <stddef.h>

/* Sets them in the environment of the calling process, except where the user did.
 * ranks: of the job on this node. */
void defaults_set(unsigned ranks);

/* What that will set, and what it will leave alone, as words; before defaults_set. */
void defaults_say(unsigned ranks, char *words, size_t size);

#endif
