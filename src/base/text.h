/* src/base/text.h: strings, for code without libc. Freestanding. */
#ifndef ONESPACE_BASE_TEXT_H
#define ONESPACE_BASE_TEXT_H

#include <stddef.h>

static inline size_t text_length(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

/* What follows the prefix, or NULL if the text does not begin with it. */
static inline const char *text_after(const char *text, const char *prefix)
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

/* Whether a terminal may obey it. */
static inline int text_is_control(char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}

/* What follows the last slash, or the whole path. */
static inline const char *text_file_name(const char *path)
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
static inline char *text_append_some(char *to, const char *text, size_t most)
{
    for (; most > 0 && *text; most--)
        *to++ = *text++;
    *to = 0;
    return to;
}

#endif
