/* src/base/text.h: strings and the numbers in them, for code without libc. Freestanding. */
#ifndef ONESPACE_BASE_TEXT_H
#define ONESPACE_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

static inline size_t text_length(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

/* The rest of the text after the prefix, or NULL if the text does not begin with it. */
static inline const char *text_skip_prefix(const char *text, const char *prefix)
{
    while (*prefix)
        if (*text++ != *prefix++)
            return NULL;
    return text;
}

static inline int text_equal(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

/* Whether a terminal may interpret the character. */
static inline int text_is_control(char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}

/* The part after the last slash, or the whole path. */
static inline const char *text_basename(const char *path)
{
    const char *name = path;
    for (; *path; path++)
        if (*path == '/')
            name = path + 1;
    return name;
}

/* Copies the text to `to`, which has room for it, and returns the address of the terminating zero
 * that it wrote. */
static inline char *text_append(char *to, const char *text)
{
    while (*text)
        *to++ = *text++;
    *to = 0;
    return to;
}

/* The same with at most `most` bytes of the text. */
static inline char *text_append_max(char *to, const char *text, size_t most)
{
    for (; most > 0 && *text; most--)
        *to++ = *text++;
    *to = 0;
    return to;
}

/* Reads the decimal number at the beginning of a text and returns the rest of the text: the text
 * itself if it begins with no digit. A number of more than 19 digits is read as some number of at
 * least 19. */
const char *text_read_number(const char *text, uint64_t *number);

/* The same for a hexadecimal number in lower case, without 0x. */
const char *text_read_hex(const char *text, uint64_t *number);

/* Appends a number of base 10 or (with 0x) 16 to a text and returns its end. */
char *text_append_number(char *text, uint64_t number, unsigned base);

#endif
