/* src/spawn/internal.h: what the files of this layer share: the state of one onespace_spawn. */
#ifndef ONESPACE_SPAWN_INTERNAL_H
#define ONESPACE_SPAWN_INTERNAL_H

#include "elf/elf.h"
#include "onespace.h"
#include "space/child.h"

struct spawn {
    struct space *space;
    struct space_slot *self, *slot;
    struct onespace_spawn_attr attr;
    struct elf_program program;
    const char *file;
    char *const *argv, *const *envp;
    struct child *child;
    uint64_t start; /* of attr.start in the program, without bias */
    int32_t id;     /* of the task that is made */
    int by_reaper;  /* the reaper clones it: the caller is in the root's process */
};

/* The program, its dynamic linker or both, mapped into a task's range (images.c). */
struct images {
    struct elf_mapping loader, program; /* size 0: not mapped here */
    int is_command;                     /* the dynamic linker is told by arguments what to load */
    int stack_prot;  /* what the kernel would give the stack; by command, ld.so sees to execution */
    uintptr_t entry; /* where the task begins */
    /* For the auxiliary vector. */
    uintptr_t phdr, program_entry, base;
    unsigned phnum;
    size_t extension_size; /* of the block at phdr; 0: there is none */
};

/* Maps trampolines, child record and images: 0 or -errno, after which the caller unmaps the range.
 */
int images_map(struct spawn *spawn, struct images *images);

/* stack.c: maps the stack at the top of the range, fills it, and records in spawn->child where to
 * start. Returns 0; -E2BIG if arguments and environment take more than execve would grant; or
 * -errno. */
int stack_build(struct spawn *spawn, const struct images *images);

#endif
