/* cmd/lib/help.h: the help of a subcommand, from which its completions in shells are made, too.
 *
 * A text of lines: those of the synopsis, which begin with "usage: "; paragraphs; and rows, which
 * begin with a blank, and have two blanks between what is explained and the explanation. Lines are
 * as long as they are: printing wraps and aligns them. The names of an option are followed by its
 * argument: a word in capitals, or its values in small letters with "|" between. */
#ifndef ONESPACE_CMD_LIB_HELP_H
#define ONESPACE_CMD_LIB_HELP_H

#include <stdio.h>

enum { HELP_WIDTH = 80 };

void help_print(FILE *out, const char *text);

/* One option of a help text. Pointers into it. */
struct help_option {
    const char *names; /* "-o, --output FILE" */
    int names_length;
    const char *text; /* to the end of the line; empty: none */
    int text_length;
};

/* The next row of `text` that explains an option: where the search goes on, or NULL. */
const char *help_next_option(const char *text, struct help_option *option);

/* The word of `names` that is most like `given`, if it is much like it, else NULL. next: gives the
 * words, with an index from 0 on, and NULL at the end. */
const char *help_most_like(const char *given, const char *(*next)(const void *names, int index),
                           const void *names);

#endif
