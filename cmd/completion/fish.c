/* cmd/completion/fish.c: completions for fish. */
#include "cmd/completion/completion.h"

static void print_quoted(FILE *out, const char *text)
{
    putc('\'', out);
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            putc('\\', out);
        putc(*text, out);
    }
    putc('\'', out);
}

static void print_option(FILE *out, const struct command *command,
                         const struct completion_option *option)
{
    fprintf(out, "complete -c onespace -n '__fish_seen_subcommand_from %s'", command->name);
    for (int i = 0; i < OPTION_NAMES && option->names[i][0]; i++)
        if (option->names[i][1] == '-')
            fprintf(out, " -l %s", option->names[i] + 2);
        else
            fprintf(out, " -s %s", option->names[i] + 1);
    if (option->kind == ARGUMENT_FILE)
        fprintf(out, " -r -F");
    else if (option->kind > ARGUMENT_OPTIONAL)
        fprintf(out, " -x");
    if (option->kind == ARGUMENT_VALUES)
        fprintf(out, " -a '%s'", option->values);
    fprintf(out, " -d ");
    print_quoted(out, option->text);
    putc('\n', out);
}

void completion_fish(FILE *out)
{
    struct completion_option option;
    fprintf(out, "# What fish completes after onespace: made by `onespace completion fish`.\n");
    for (const struct command *command = commands; command->name; command++)
        if (command->purpose) {
            fprintf(out, "complete -c onespace -n __fish_use_subcommand -f -a %s -d ",
                    command->name);
            print_quoted(out, command->purpose);
            putc('\n', out);
        }
    fprintf(out,
            "complete -c onespace -n __fish_use_subcommand -f -a help -d 'say more of a command'\n"
            "complete -c onespace -n '__fish_seen_subcommand_from help' -f -a '");
    for (const struct command *command = commands; command->name; command++)
        if (command->purpose)
            fprintf(out, "%s ", command->name);
    fprintf(out, "'\n");
    for (const struct command *command = commands; command->name; command++)
        if (command->purpose)
            for (const char *help = command->help; (help = completion_next(help, &option));)
                print_option(out, command, &option);
}
