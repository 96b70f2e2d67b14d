/* src/base/numbers.h: numbers in text, and those that name the entries of a directory, as in
 * /proc/self/fd. Freestanding. */
#ifndef ONESPACE_BASE_NUMBERS_H
#define ONESPACE_BASE_NUMBERS_H

#include <stdint.h>

/* Calls visit for each number; `directory` is the open directory's own descriptor. 0, or -errno
 * when the directory cannot be opened. */
typedef void numbers_visit(void *context, int number, int directory);
long numbers_each(const char *path, numbers_visit *visit, void *context);

/* Reads the decimal number that a text begins with and returns what follows it: the text itself if
 * there is none. A number of more than 19 digits is read as some number of at least 19. */
const char *numbers_read(const char *text, uint64_t *number);

/* Appends a number of base 10 or (with 0x) 16 to a text and returns its end. */
char *numbers_write(char *text, uint64_t number, unsigned base);

#endif
