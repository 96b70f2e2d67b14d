/* src/api/kernel.h: this machine's kernel and its known faults (base/kernel.h). */
#ifndef ONESPACE_API_KERNEL_H
#define ONESPACE_API_KERNEL_H

#include "base/kernel.h"

/* The version that is compared with those of kernel.org, and in `release` what uname(2) calls it.
 * 0, or -1 if that is not a version; `release` is set in both cases. */
int kernel_here(struct kernel_release *kernel, char *release, size_t size);

/* Whether the environment says to run on a kernel with known faults (ONESPACE_FAULTY_KERNEL=1). */
int kernel_faults_are_accepted(void);

/* Whether this kernel may stall the machine while a space runs, and the environment does not accept
 * that. `program` begins the message that says so; NULL: no message. onespace_init asks, so that
 * each root is refused, and so do commands, before they start anything. */
int kernel_may_stall(const char *program);

/* Before the first task of a job: -1 if the kernel may stall the machine; otherwise 0, perhaps
 * after a warning about lesser faults. NULL: no message, because another rank of the job prints it.
 */
int kernel_check(const char *program);

#endif
