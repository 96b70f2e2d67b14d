/* src/spawn/spawn.h: making a task. */
#ifndef ONESPACE_SPAWN_SPAWN_H
#define ONESPACE_SPAWN_SPAWN_H

#include <signal.h>
#include <stddef.h>

#include "elf/elf.h"
#include "onespace.h"
#include "space/child.h"

/* Where libonespace-agent.so is. */

/* A path to the agent that ld.so's --preload accepts (no blank, no colon), or NULL if there is no
 * agent. Found beside this library, or where ONESPACE_AGENT says. Static storage. */
const char *agent_path(void);

/* The path of another file in the agent's directory; empty if it is not there or does not fit. */
void agent_sibling_path(const char *name, char *path, size_t size);

/* From what the user typed to the program that runs as a task. */

/* elf_resolve, with the start program for Python interpreters that is installed beside the agent.
 */
int resolve_program(int dirfd, const char *file, char *const argv[], const char *path,
                    struct elf_program *program, struct elf_problem *problem);

/* Files in memory that processes outside the space find by name. */

/* A close-on-exec descriptor of a file of that size; flags: MFD_*. -EFBIG when the limit on file
 * sizes (ulimit -f), which counts here too, is smaller; otherwise -errno. */
int memory_file_create(const char *name, unsigned flags, size_t size);

/* What a task inherits from its spawner although another process clones
 * it. */

/* Fills limits, nice value, CPU affinity, memory policy and ignored signals of a child record from
 * the attributes. What these leave unset comes from the calling thread: through the record if that
 * is the root's, through clone if it is a task's. */
void child_inherit(struct child *child, const struct onespace_spawn_attr *attr,
                   const struct space_slot *spawner);

/* The signals that the calling process ignores: bit n-1 for signal n, as the kernel has it. */
uint64_t ignored_signals_of_process(void);
uint64_t signal_set_bits(const sigset_t *set);

/* Making the kernel task of a child, and its first steps. Freestanding. */

/* Runs as the new kernel task, on its own stack, with all signals blocked. Never returns. */
void child_main(void *argument);
/* Reports success to the spawner. */
void child_report_started(struct space_slot *slot);
/* Makes the kernel task of a prepared child: called by a task for its own child (to the kernel, a
 * sibling of the task) or by the reaper for the root's. The pid or -errno. */
long child_clone(struct child *child, int as_sibling);

#endif
