/* cmd/lib/kernel.h: this machine's kernel and its known faults (base/kernel.h). */
#ifndef ONESPACE_CMD_LIB_KERNEL_H
#define ONESPACE_CMD_LIB_KERNEL_H

#include "base/kernel.h"

/* The version that is compared with those of kernel.org, and in `release` what uname(2) calls it.
 * 0, or -1 if that is not a version; `release` is set all the same. */
int kernel_here(struct kernel_release *kernel, char *release, size_t size);

/* Whether the environment says to run on a kernel with known faults (ONESPACE_FAULTY_KERNEL=1). */
int kernel_faults_are_accepted(void);

/* Before the first task: -1 if this kernel may stall the machine while a space runs, 0 otherwise.
 * says: print why not, or a warning about lesser faults. Ranks of a job leave that to the first. */
int kernel_check(const char *command, int says);

#endif
