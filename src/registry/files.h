/* src/registry/files.h: what is cached for all tasks: the patch sites of files, ld.so.cache, and
 * what the CPU answers to cpuid. */
#ifndef ONESPACE_REGISTRY_FILES_H
#define ONESPACE_REGISTRY_FILES_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/file_identity.h"

enum { SPACE_FILES = 256, SPACE_FILE_PATCH_SITES = 96, SPACE_CPUIDS = 96 };

/* The patch sites of a file that was mapped executable. FILLING entries whose filler died stay
 * unused; readers skip what is not READY. */
struct space_patch_site {
    uint32_t at;               /* offset from the start of the mapping */
    uint16_t nr;               /* system call number, or SPACE_PATCH_SITE_CPUID */
    uint8_t length, displaced; /* as arch_next_patch_site found them */
};
#define SPACE_PATCH_SITE_CPUID 0xffffu
/* What the CPU answers to cpuid; `state` as in struct space_file. */
struct space_cpuid {
    _Atomic uint32_t state;
    uint32_t leaf, subleaf, answer[4], unused;
};
enum file_state { FILE_EMPTY, FILE_FILLING, FILE_READY };
struct space_file {
    _Atomic uint32_t state;
    uint16_t count, left_out; /* patch sites kept; those that found patch_sites[] full */
    struct file_identity identity;
    uint64_t offset, length; /* of the mapping */
    uint64_t is_loader;      /* searched as a dynamic linker */
    struct space_patch_site patch_sites[SPACE_FILE_PATCH_SITES];
};

/* ld.so.cache, mapped once for all tasks: EMPTY -> FILLING -> READY as with files. */
struct space_cache {
    _Atomic uint32_t state;
    struct file_identity identity;
};

#endif
