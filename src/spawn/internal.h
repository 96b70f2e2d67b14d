/* src/spawn/internal.h: what the files of spawn share. */
#ifndef ONESPACE_SPAWN_INTERNAL_H
#define ONESPACE_SPAWN_INTERNAL_H

#include "elf/elf.h"
#include "interpose/patch/patch.h"
#include "onespace.h"
#include "space/child.h"
#include "space/registry.h"

/* What a task needs before its kernel task exists: the program or its
 * dynamic linker mapped, a stack, and the record from which the child sets itself up. */

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

/* The program, its dynamic linker or both, mapped into a task's range. */

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

/* The dynamic linker of many tasks, patched once.
 *
 * Mapping ld.so into each task segment by segment, making its code writable, patching it and making
 * it executable again are a dozen changes to an address space that all tasks share, and dominated
 * the time to start one. Instead the root keeps, in memory files, ld.so as it lies in a task's
 * range, with its system calls already turned into jumps: after the page of trampolines that these
 * jump to, and before the trampolines' data page and the room for the child record:
 *
 *   | trampolines | ld.so: code, constants | ld.so: data, .bss | tramp. data | child record |
 *   |<-------- mapped for execution ------>|<------------- mapped for writing ------------->|
 *
 * Two private mappings of that file are all that a task needs. The patched bytes depend only on
 * distances within the file, so the same file fits every range. */

/* Maps the interpreter of the program into the claimed slot's empty range and prepares its
 * interposition, in place of interpose_map_trampolines, elf_map and interpose_patch_mapping. Only
 * for the root: the files are its descriptors. 0, or -errno with nothing mapped: then use those
 * three. */
int loader_image_map(struct space *space, struct space_slot *slot,
                     const struct elf_program *program, struct elf_mapping *mapping);
/* Where an interpreter of so many bytes goes in the slot's range: at the end of the area for files,
 * if the trampolines are in reach from everywhere in it. As in a process it lies above the program
 * then: programs take writable memory below their end for their own (Open MPI's OpenSHMEM). Else it
 * is the first file. */
uintptr_t loader_address(const struct space_slot *slot, size_t size, size_t align);
/* As which kind of code the interpreter with that path is patched: musl's is the libc itself. */
enum interpose_code loader_code_kind(const char *path);
/* Closes the files. No other thread may be spawning. */
void loader_images_close(void);

/* A task's main stack, as execve would leave it. */

/* What the kernel grants arguments and environment whatever the limit is. */
enum { STACK_STRINGS_LEAST = 128 * 1024 };

struct stack_request {
    struct space *space;
    struct space_slot *slot;
    size_t size;  /* bytes of the stack */
    size_t limit; /* RLIMIT_STACK of the task: the kernel lets no stack grow beyond it */
    const struct images *images;
    const char *program; /* AT_EXECFN */
    char *const *argv, *const *envp;
    unsigned name_at, arguments_at; /* indexes in argv: of the program's argv[0] and argv[1] */
    /* What stack_build gives. */
    struct child_strings strings;
    uintptr_t auxv;
};

/* Maps the stack at the top of the slot's range and fills it. 0, -E2BIG when arguments and
 * environment take more than execve would grant, or -errno; *stack_pointer is where to start. */
int stack_build(struct stack_request *request, uintptr_t *stack_pointer);

#endif
