/* src/elf/internal.h: what the sources of elf share: checked arithmetic, reading, refusing. */
#ifndef ONESPACE_ELF_INTERNAL_H
#define ONESPACE_ELF_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/constants.h"
#include "base/page.h"
#include "elf/elf.h"

/* Whether [offset, offset + size) lies in [0, limit), without arithmetic that could wrap. */
static inline bool elf_within(uint64_t offset, uint64_t size, uint64_t limit)
{
    return offset <= limit && size <= limit - offset;
}

/* read.c: fills *problem (which may be NULL) and returns -error. Bytes of the reason that could
 * control a terminal are replaced: it may quote a hostile file. */
__attribute__((format(printf, 4, 5))) int elf_refuse(struct elf_problem *problem, int error,
                                                     const char *fix, const char *reason, ...);

/* read.c: reads up to `size` bytes; the count (short only at the end of the file) or -errno. */
ssize_t elf_read_some(int fd, void *buffer, size_t size, uint64_t offset);

/* read.c: reads exactly `size` bytes: 0, -ELIBBAD when the file ends before (it may have been cut
 * since it was measured), or another -errno. */
int elf_read_exact(int fd, void *buffer, size_t size, uint64_t offset);

/* resolve.c: fills *problem for a file that could not be opened, and returns -error. */
int elf_refuse_open(struct elf_problem *problem, int error);

/* read.c: the offset of [vaddr, vaddr + size) in the file; false unless it lies in the file part of
 * one segment. */
bool elf_offset_of(const struct elf_info *info, uint64_t vaddr, uint64_t size, uint64_t *offset);

/* read.c: fills info->takes_argv0_preload of an interpreter. 0 or -errno. */
int elf_read_linker(int fd, struct elf_info *info, struct elf_problem *problem);

/* eligibility.c: refuses by name, at each step of the chain. 0 or -errno. */
int elf_check_name(const char *path, struct elf_problem *problem);

/* eligibility.c: refuses the file that would be executed, a program or a script, if SELinux then
 * ran it under another label than this process's, which tasks keep. 0 or -errno. */
int elf_check_label(int fd, struct elf_problem *problem);

/* eligibility.c: refuses valid programs that cannot be tasks. 0 or -errno. */
int elf_check_eligible(int fd, const struct elf_info *info, struct elf_problem *problem);

/* python.c: whether the file, whose real path is given, is a Python interpreter that has to run
 * from its shared library: 1 with the library's path, 0 when it is something else, or -ENOEXEC with
 * *problem filled when there is no such library. */
int elf_python_library(int fd, const char *path, char library[PATH_MAX],
                       struct elf_problem *problem);
/* python.c: the start program's path, empty: none. */
const char *elf_python_start(void);

/* symbol.c: the index of the first of the NULL-terminated names that .dynsym, else .symtab,
 * defines; -ENOENT when neither defines any, or another -errno. Both count: clang exports what it
 * links statically into a program, gcc does not. */
int elf_defines(int fd, const char *const names[]);

/* The #! line of a script. */
struct elf_script_line {
    char interpreter[ELF_SCRIPT_LINE];
    char argument[ELF_SCRIPT_LINE];
    bool has_argument; /* the argument may be empty */
};

/* resolve.c: parses the first `length` bytes of a file, of which at most ELF_SCRIPT_LINE count.
 * False if the kernel would not take it for a script (ENOEXEC): no #!, no interpreter, or an
 * interpreter that may be cut off. */
bool elf_parse_script_line(const char *start, size_t length, struct elf_script_line *parsed);

#endif
