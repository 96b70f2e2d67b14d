/* cmd/completion/bash.c: completions for bash, without the package bash-completion. */
#include "cmd/completion/completion.h"

static void print_commands(FILE *out)
{
    for (const struct command *command = commands; command->name; command++)
        if (command->purpose)
            fprintf(out, "%s ", command->name);
}

/* Names of all options, or of those that have an argument in the next word. */
static void print_options(FILE *out, const char *help, int with_argument)
{
    struct completion_option option;
    const char *blank = "";
    while ((help = completion_next(help, &option)))
        for (int i = 0; i < OPTION_NAMES && option.names[i][0]; i++)
            if (!with_argument || option.kind > ARGUMENT_OPTIONAL) {
                fprintf(out, "%s%s", blank, option.names[i]);
                blank = " ";
            }
}

static void print_case(FILE *out, const struct command *command)
{
    fprintf(out, "    %s)\n        options='", command->name);
    print_options(out, command->help, 0);
    fprintf(out, "'\n        separate='");
    print_options(out, command->help, 1);
    fprintf(out, "'\n");
    if (completion_has_program(command))
        fprintf(out, "        program=1\n");
    fprintf(out, "        ;;\n");
}

static void print_values(FILE *out, const struct command *command)
{
    struct completion_option option;
    for (const char *help = command->help; (help = completion_next(help, &option));)
        for (int i = 0; i < OPTION_NAMES && option.names[i][0]; i++)
            if (option.kind == ARGUMENT_VALUES)
                fprintf(out, "    '%s %s') values='%s' ;;\n", command->name, option.names[i],
                        option.values);
}

static const char beginning[] =
    "# What bash completes after onespace: made by `onespace completion bash`.\n"
    "_onespace()\n"
    "{\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} at\n"
    "    local options='' separate='' program='' values=''\n"
    "    if ((COMP_CWORD == 1)) || [[ $command == help ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W '";

static const char middle[] =
    "    # An option with an argument in the next word; and where a program is named, its own "
    "begin.\n"
    "    for ((at = 2; at < COMP_CWORD; at++)); do\n"
    "        case ${COMP_WORDS[at]} in\n"
    "        -*) [[ \" $separate \" == *\" ${COMP_WORDS[at]} \"* ]] && ((at++)) ;;\n"
    "        *) [[ $program ]] && return ;;\n"
    "        esac\n"
    "    done\n"
    "    case \"$command ${COMP_WORDS[COMP_CWORD - 1]}\" in\n";

static const char end[] =
    "    esac\n"
    "    if [[ $values ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$word\")\n"
    "    elif ((at == COMP_CWORD)) && [[ $word == -* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
    "    elif ((at == COMP_CWORD)) && [[ $program && $word != */* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -A command -A file -- \"$word\")\n"
    "    fi\n"
    "}\n"
    "complete -o default -F _onespace onespace\n";

void completion_bash(FILE *out)
{
    fputs(beginning, out);
    print_commands(out);
    fprintf(out, "help' -- \"$word\")\n        return\n    fi\n    case $command in\n");
    for (const struct command *command = commands; command->name; command++)
        if (command->purpose)
            print_case(out, command);
    fprintf(out, "    *) return ;;\n    esac\n");
    fputs(middle, out);
    for (const struct command *command = commands; command->name; command++)
        if (command->purpose)
            print_values(out, command);
    fputs(end, out);
}
