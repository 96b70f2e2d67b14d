/* cmd/lib/patch_sites.h: which system calls of a file of machine code can be interposed
 * (src/interpose/patch/patch.h). */
#ifndef ONESPACE_CMD_LIB_PATCH_SITES_H
#define ONESPACE_CMD_LIB_PATCH_SITES_H

#include <stddef.h>

/* How many patch sites of each system call a file has. */
struct patch_sites {
    unsigned mmap, munmap, mremap, brk, rt_sigaction, process_vm_readv, process_vm_writev;
    unsigned openat; /* wanted in a dynamic linker alone */
};

/* Searches the executable segments of an ELF file: 0 or -errno, with *patch_sites untouched. */
int patch_sites_count(const char *path, struct patch_sites *patch_sites);

/* Writes the names of those that are missing, separated by commas: their number. Those that a
 * task's heap and mappings need come first; with memory_only only they count. */
unsigned patch_sites_missing(const struct patch_sites *sites, int memory_only, char *text,
                             size_t size);

/* The libc that an interpreter loads: libc.so.6 beside it, or the interpreter itself (musl). */
void patch_sites_libc_path(const char *interpreter, char *path, size_t size);

#endif
