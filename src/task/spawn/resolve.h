/* src/task/spawn/resolve.h: from what the user typed to the program that runs as a task. */
#ifndef ONESPACE_TASK_RESOLVE_H
#define ONESPACE_TASK_RESOLVE_H

#include "elf/elf.h"

/* elf_resolve, with the start program for Python interpreters that is installed beside the agent.
 */
int task_resolve(int dirfd, const char *file, char *const argv[], const char *path,
                 struct elf_program *program, struct elf_problem *problem);

#endif
