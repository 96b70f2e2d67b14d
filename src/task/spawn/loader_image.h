/* src/task/spawn/loader_image.h: the dynamic linker of many tasks, patched once.
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
#ifndef ONESPACE_TASK_LOADER_IMAGE_H
#define ONESPACE_TASK_LOADER_IMAGE_H

#include "elf/elf.h"
#include "interpose/patch/patch.h"
#include "registry/space.h"

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
uintptr_t loader_place(const struct space_slot *slot, size_t size, size_t align);
/* As which kind of code the interpreter with that path is patched: musl's is the libc itself. */
enum interpose_code loader_kind(const char *path);
/* Closes the files. No other thread may be spawning. */
void loader_image_forget(void);

#endif
