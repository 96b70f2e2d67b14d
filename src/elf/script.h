/* src/elf/script.h: the #! line of a script, read as the kernel's fs/binfmt_script.c reads it. */
#ifndef ONESPACE_ELF_SCRIPT_H
#define ONESPACE_ELF_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "elf/elf.h"

struct script_line {
    char interpreter[ELF_SCRIPT_LINE];
    char argument[ELF_SCRIPT_LINE];
    bool has_argument; /* it may be there and be empty */
};

static inline bool script_is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

/* First index in [from, last] whose byte is not blank; last + 1 when there is none. */
static inline size_t script_skip_blanks(const char *line, size_t from, size_t last)
{
    while (from <= last && script_is_blank(line[from]))
        from++;
    return from;
}

/* First index in [from, last] whose byte ends a word; last + 1 when there is none. */
static inline size_t script_word_end(const char *line, size_t from, size_t last)
{
    while (from <= last && !script_is_blank(line[from]) && line[from] != '\0')
        from++;
    return from;
}

/* Parses the start of a file; no more than ELF_SCRIPT_LINE bytes are looked at. False when it is
 * no script to the kernel (ENOEXEC): no #!, no interpreter, or one that may be cut off.
 *
 * The kernel's view is kept to the byte, because scripts rely on it: the buffer counts as padded
 * with zeroes; a zero byte before the newline hides the newline; without a newline trailing blanks
 * belong to the argument and an over-long argument is cut. */
static inline bool parse_script_line(const char *start, size_t length, struct script_line *parsed)
{
    char line[ELF_SCRIPT_LINE + 1] = {0};
    const size_t last = ELF_SCRIPT_LINE - 1;
    memcpy(line, start, length <= last ? length : last + 1);
    if (line[0] != '#' || line[1] != '!')
        return false;
    size_t end = strcspn(line, "\n");
    if (line[end] != '\n') {
        size_t name = script_skip_blanks(line, 2, last);
        if (name > last || script_word_end(line, name, last) > last)
            return false;
        end = last;
    }
    while (script_is_blank(line[end - 1]))
        end--;
    size_t name = script_skip_blanks(line, 2, end);
    if (name >= end)
        return false;
    size_t name_end = script_word_end(line, name, end);
    size_t argument = end + 1;
    if (name_end <= end && line[name_end] != '\0')
        argument = script_skip_blanks(line, name_end, end);
    line[end] = '\0';
    parsed->has_argument = argument <= end;
    if (parsed->has_argument)
        line[name_end] = '\0';
    memcpy(parsed->argument, parsed->has_argument ? line + argument : "",
           parsed->has_argument ? strlen(line + argument) + 1 : 1);
    memcpy(parsed->interpreter, line + name, strlen(line + name) + 1);
    return true;
}

#endif
