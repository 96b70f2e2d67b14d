/* cmd/lib/patch_sites.h: which system calls of a file of machine code can be steered
 * (src/steer/steer.h). */
#ifndef ONESPACE_CMD_LIB_PATCH_SITES_H
#define ONESPACE_CMD_LIB_PATCH_SITES_H

#include <stddef.h>

/* How many sites of each system call a file has. */
struct sites {
    unsigned mmap, munmap, mremap, brk, rt_sigaction, process_vm_readv, process_vm_writev;
    unsigned openat; /* wanted in a dynamic linker alone */
};

/* Searches the executable segments of an ELF file: 0 or -errno, with *sites untouched. */
int sites_count(const char *path, struct sites *sites);

void sites_add(struct sites *to, const struct sites *more);

/* Writes the names of those that are missing, separated by commas: their number. What the heap and
 * mappings of a task need comes first; with memory_only nothing else is looked at. */
unsigned sites_missing(const struct sites *sites, int memory_only, char *text, size_t size);

/* The libc that an interpreter loads: libc.so.6 beside it, or the interpreter itself (musl). */
void sites_libc_path(const char *interpreter, char *path, size_t size);

#endif
