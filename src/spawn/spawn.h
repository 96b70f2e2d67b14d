/* src/spawn/spawn.h: making a task. */
#ifndef ONESPACE_SPAWN_SPAWN_H
#define ONESPACE_SPAWN_SPAWN_H

#include <signal.h>
#include <stddef.h>

#include "elf/elf.h"
#include "onespace.h"
#include "space/child.h"

/* ---- agent_path.c ---- */

/* A path of the agent that ld.so's --preload accepts (no blank, no colon), or NULL if there is no
 * agent. It is found beside this library, or where ONESPACE_AGENT says. Static storage. */
const char *agent_path(void);
/* The path of another file in the agent's directory; empty if the file is missing or the path too
 * long. */
void agent_sibling_path(const char *name, char *path, size_t size);
/* elf_resolve, with the start program for Python interpreters that is installed beside the agent.
 */
int resolve_program(int dirfd, const char *file, char *const argv[], const char *path,
                    struct elf_program *program, struct elf_problem *problem);

/* ---- spawn.c ---- */

/* The program's path as `ps` shows it: truncated at the front if longer. */
void slot_store_program(struct space_slot *slot, const char *path);

/* ---- images.c ---- */

/* A close-on-exec descriptor of a memory file, which processes outside the space find by its name.
 * `flags` are MFD_*. Returns -errno; -EFBIG if the limit on file sizes (ulimit -f) is smaller. */
int memory_file_create(const char *name, unsigned flags, size_t size);
/* Closes the files of the patched dynamic linkers. No other thread may be spawning. */
void loader_images_close(void);

/* ---- inherit.c ---- */

/* Fills limits, nice value, CPU affinity, memory policy and ignored signals of a child record from
 * the attributes. Unset attributes come from the calling thread: through the record if the reaper
 * clones for it (`by_reaper`), else through clone. */
void child_inherit(struct child *child, const struct onespace_spawn_attr *attr, int by_reaper);
/* The signals that the calling process ignores: bit n-1 for signal n, as the kernel has it. */
uint64_t ignored_signals_of_process(void);
uint64_t signal_set_bits(const sigset_t *set);

/* ---- child.c. Freestanding. ---- */

/* Makes the kernel task of a prepared child: by a task for its own child (to the kernel, a sibling
 * of the task), or by the reaper for those of the root's process. Returns the PID or -errno. */
long child_clone(struct child *child, int as_sibling);
/* The kernel task's main function, on its own stack, with all signals blocked. Never returns. */
void child_main(void *argument);
/* STARTING to RUNNING, unless it is done. By the child, or the reaper. */
void child_set_running(struct space_slot *slot);
/* Reports success to the spawner. */
void child_report_started(struct space_slot *slot);
/* By the agent of each task, on the task's main thread, when its libraries are loaded. `link_map`
 * is the first of its dynamic linker's, or 0. */
void task_loaded(struct space_slot *self, uintptr_t link_map);

#endif
