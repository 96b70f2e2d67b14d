/* src/task/spawn/prepare.h: what a task needs before its kernel task exists: the program or its
 * dynamic linker mapped, a stack, and the record from which the child sets itself up. */
#ifndef ONESPACE_TASK_PREPARE_H
#define ONESPACE_TASK_PREPARE_H

#include "elf/elf.h"
#include "onespace.h"
#include "registry/child.h"

struct spawn {
    struct space *space;
    struct space_slot *self, *slot;
    struct onespace_spawn_attr attr;
    struct elf_program program;
    const char *file;
    char *const *argv, *const *envp;
    struct child *child;
    uint64_t start; /* of attr.start in the program, without bias */
};

/* Fills the claimed slot, its memory and spawn->child. The caller has blocked all signals;
 * signal_mask is the mask from before. 0, or -errno: then spawn.c undoes what was done. */
int prepare_child(struct spawn *spawn, uint64_t signal_mask);

#endif
