/* src/task/spawn/images.h: the program, its dynamic linker or both, mapped into a task's range. */
#ifndef ONESPACE_TASK_IMAGES_H
#define ONESPACE_TASK_IMAGES_H

#include "elf/elf.h"

struct spawn;

/* A program is entered in one of three ways:
 *
 * - Static: it is mapped and entered itself.
 * - By command: its dynamic linker is mapped and told by arguments to load the agent and the
 *   program, which needs options that glibc has since 2.33.
 * - As the kernel enters it, with an older dynamic linker: both are mapped, the auxiliary vector
 *   leads to the program, and the agent is in front of the libraries that the program needs
 *   (elf_extend). */
struct images {
    struct elf_mapping loader, program; /* size 0: not mapped here */
    int is_command;
    int stack_prot;  /* what the kernel would give the stack; by command ld.so sees to execution */
    uintptr_t entry; /* where the task begins */
    /* For the auxiliary vector. */
    uintptr_t phdr, program_entry, base;
    unsigned phnum;
    size_t extension_size; /* of the block at phdr; 0: there is none */
};

/* Maps trampolines, child record and images. 0 or -errno: then the range is to be unmapped. */
int images_map(struct spawn *spawn, struct images *images);

#endif
