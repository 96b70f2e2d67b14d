/* cmd/completion/completion.h: what the completions for each shell are made of: the table of
 * subcommands and their help texts, so that no option can be forgotten. */
#ifndef ONESPACE_CMD_COMPLETION_COMPLETION_H
#define ONESPACE_CMD_COMPLETION_COMPLETION_H

#include "cmd/lib/commands.h"
#include "cmd/lib/help.h"

enum { OPTION_NAMES = 4, OPTION_NAME_SIZE = 40, OPTION_TEXT_SIZE = 512 };

enum option_argument {
    ARGUMENT_NONE,
    ARGUMENT_OPTIONAL, /* in the same word, after a "=" */
    ARGUMENT_TEXT,     /* something that no shell can know */
    ARGUMENT_FILE,
    ARGUMENT_VALUES, /* one of option->values */
};

struct completion_option {
    char names[OPTION_NAMES][OPTION_NAME_SIZE]; /* with their dashes; the last are empty */
    enum option_argument kind;
    char argument[OPTION_NAME_SIZE]; /* what the help calls it */
    char values[OPTION_TEXT_SIZE];   /* with blanks between */
    char text[OPTION_TEXT_SIZE];
};

/* The next option of the help text: where the search goes on, or NULL. */
const char *completion_next(const char *help, struct completion_option *option);
/* Whether a program with arguments of its own follows the options. */
int completion_has_program(const struct command *command);

void completion_bash(FILE *out);
void completion_zsh(FILE *out);
void completion_fish(FILE *out);

#endif
