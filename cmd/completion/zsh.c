/* cmd/completion/zsh.c: completions for zsh, a function for a directory of $fpath. */
#include "cmd/completion/completion.h"

#include <string.h>

/* Within single quotes; `special` get a backslash. */
static void print_text(FILE *out, const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", out);
            continue;
        }
        if (strchr(special, *text))
            putc('\\', out);
        putc(*text, out);
    }
}

static void print_option(FILE *out, const struct completion_option *option)
{
    for (int i = 0; i < OPTION_NAMES && option->names[i][0]; i++) {
        fprintf(out, " \\\n            '%s%s[", option->names[i],
                option->kind == ARGUMENT_OPTIONAL ? "=-" : "");
        print_text(out, option->text, "[]:\\");
        fprintf(out, "]");
        if (option->kind == ARGUMENT_NONE)
            fprintf(out, "'");
        else if (option->kind == ARGUMENT_FILE)
            fprintf(out, ":%s:_files'", option->argument);
        else
            fprintf(out, "%s:%s:(%s)'", option->kind == ARGUMENT_OPTIONAL ? ":" : "",
                    option->argument, option->values);
    }
}

static void print_case(FILE *out, const struct command *command)
{
    struct completion_option option;
    fprintf(out, "    %s)\n        _arguments -s -S", command->name);
    if (completion_has_program(command))
        fprintf(out, " -A '-*'");
    for (const char *help = command->help; (help = completion_next(help, &option));)
        print_option(out, &option);
    if (completion_has_program(command))
        fprintf(out, " \\\n            '(-):program:_command_names -e' '*::argument:_normal'\n");
    else
        fprintf(out, " \\\n            '*:file:_files'\n");
    fprintf(out, "        ;;\n");
}

void completion_zsh(FILE *out)
{
    fprintf(out, "#compdef onespace\n"
                 "# What zsh completes after onespace: made by `onespace completion zsh`.\n"
                 "_onespace()\n{\n    local command\n    local -a commands\n    commands=(\n");
    for (const struct command *command = commands; command->name; command++)
        if (command->purpose) {
            fprintf(out, "        '%s:", command->name);
            print_text(out, command->purpose, ":\\");
            fprintf(out, "'\n");
        }
    fprintf(out, "        'help:say more of a command'\n    )\n"
                 "    if ((CURRENT == 2)) || [[ $words[2] == help ]]; then\n"
                 "        _describe command commands\n        return\n    fi\n"
                 "    command=$words[2]\n    shift words\n    ((CURRENT--))\n"
                 "    case $command in\n");
    for (const struct command *command = commands; command->name; command++)
        if (command->purpose)
            print_case(out, command);
    fprintf(out, "    esac\n}\n"
                 "if [[ $funcstack[1] == _onespace ]]; then\n    _onespace \"$@\"\n"
                 "else\n    compdef _onespace onespace\nfi\n");
}
