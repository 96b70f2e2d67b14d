/* cmd/check/verdict.h: what `onespace check` finds out about a program. */
#ifndef ONESPACE_CMD_CHECK_VERDICT_H
#define ONESPACE_CMD_CHECK_VERDICT_H

#include <limits.h>

#include "elf/elf.h"

enum { NOTES_MAX = 6, NOTE_SIZE = 2 * PATH_MAX };

struct verdict {
    const char *name; /* as given */
    int can;
    struct elf_program program; /* valid if can */
    struct elf_problem problem; /* valid if not */
    const char *libc;
    unsigned note_count;
    char notes[NOTES_MAX][NOTE_SIZE];
};

/* Fills a zeroed verdict on the program of that name. verdict->program is the caller's to free if
 * it can be a task. */
void verdict_find(const char *name, struct verdict *verdict);

#endif
