/* src/elf/known.h: a cache of files that were read and accepted.
 *
 * Starting a thousand tasks of one program reads and checks it once. Changing a file, its mode or
 * its capabilities changes its identity. */
#ifndef ONESPACE_ELF_KNOWN_H
#define ONESPACE_ELF_KNOWN_H

#include <stdbool.h>

#include "base/file_identity.h"
#include "elf/elf.h"

/* What a file was accepted as. */
enum elf_known_role { ELF_KNOWN_PROGRAM = 1, ELF_KNOWN_INTERPRETER };

/* The same by name, for an interpreter that every user may execute: fills what read_interpreter
 * would. */
bool elf_known_interpreter(const char *name, struct elf_program *program);
/* `file` was identified before it was read, here and below. */
void elf_known_add_interpreter(const struct file_identity *file, const struct elf_program *program);

bool elf_known_find(const struct file_identity *file, enum elf_known_role role,
                    struct elf_info *info);
void elf_known_add(const struct file_identity *file, enum elf_known_role role,
                   const struct elf_info *info);

#endif
