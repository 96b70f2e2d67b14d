/* src/base/numbers.h: the numbers that name the entries of a folder, as in /proc/self/fd. */
#ifndef ONESPACE_BASE_NUMBERS_H
#define ONESPACE_BASE_NUMBERS_H

/* Calls visit for each number; `folder` is the open folder's own descriptor. 0, or -errno when the
 * folder cannot be opened. Freestanding. */
typedef void numbers_visit(void *context, int number, int folder);
long numbers_each(const char *path, numbers_visit *visit, void *context);

/* Appends a decimal number to a text and gives its end. */
char *numbers_write(char *text, int number);

#endif
