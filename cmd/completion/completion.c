/* cmd/completion/completion.c: onespace completion: what a shell completes after `onespace`, made
 * from the table of subcommands and their help texts. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/lib/options.h"

/* ---- Options of a help text ---- */

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

/* "libc|tuned", "none|core|CPUS": the words in small letters. */
static void read_values(struct completion_option *option)
{
    char copy[OPTION_NAME_SIZE], *save;
    size_t used = 0;
    snprintf(copy, sizeof(copy), "%s", option->argument);
    for (char *word = strtok_r(copy, "|", &save); word; word = strtok_r(NULL, "|", &save))
        if (islower((unsigned char)*word))
            used += (size_t)snprintf(option->values + used, sizeof(option->values) - used, "%s%s",
                                     used ? " " : "", word);
}

static enum option_argument kind_of(const char *argument)
{
    static const char *const files[] = {"FILE", "PATH", "DIRECTORY", "CORE"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (strcmp(argument, files[i]) == 0)
            return ARGUMENT_FILE;
    return islower((unsigned char)*argument) ? ARGUMENT_VALUES : ARGUMENT_TEXT;
}

/* "-o, --output FILE", "--stats[=ranks]". */
static void read_names(const char *names, int length, struct completion_option *option)
{
    const char *end = names + length;
    for (int i = 0; i < OPTION_NAMES && names < end && *names == '-'; i++) {
        int size = (int)strcspn(names, ", [\n");
        if (size > end - names)
            size = (int)(end - names);
        snprintf(option->names[i], OPTION_NAME_SIZE, "%.*s", size, names);
        names += size;
        names += names < end && strncmp(names, ", ", 2) == 0 ? 2 : 0;
    }
    if (names >= end)
        return;
    int is_optional = *names == '[';
    names += is_optional ? 2 : 1;
    snprintf(option->argument, sizeof(option->argument), "%.*s", (int)(end - names) - is_optional,
             names);
    option->kind = is_optional ? ARGUMENT_OPTIONAL : kind_of(option->argument);
    read_values(option);
}

/* Reads the next option of a help text: where to continue, or NULL. */
static const char *next_option(const char *help, struct completion_option *option)
{
    struct help_option found;
    const char *next = help_next_option(help, &found);
    memset(option, 0, sizeof(*option));
    if (!next)
        return NULL;
    read_names(found.names, found.names_length, option);
    snprintf(option->text, sizeof(option->text), "%.*s", found.text_length, found.text);
    return next;
}

/* Whether a program with arguments of its own follows the options. */
static int has_program(const struct command *command)
{
    return strstr(command->help, "PROGRAM [ARGUMENT") != NULL;
}

/* ---- bash, without the package bash-completion ---- */

static void print_bash_commands(FILE *out)
{
    for (const struct command *command = commands; command->name; command++)
        fprintf(out, "%s ", command->name);
}

/* Names of all options, or of those that have an argument in the next word. */
static void print_bash_options(FILE *out, const char *help, int with_argument)
{
    struct completion_option option;
    const char *blank = "";
    while ((help = next_option(help, &option)))
        for (int i = 0; i < OPTION_NAMES && option.names[i][0]; i++)
            if (!with_argument || option.kind > ARGUMENT_OPTIONAL) {
                fprintf(out, "%s%s", blank, option.names[i]);
                blank = " ";
            }
}

static void print_bash_case(FILE *out, const struct command *command)
{
    fprintf(out, "    %s)\n        options='", command->name);
    print_bash_options(out, command->help, 0);
    fprintf(out, "'\n        separate='");
    print_bash_options(out, command->help, 1);
    fprintf(out, "'\n");
    if (has_program(command))
        fprintf(out, "        program=1\n");
    fprintf(out, "        ;;\n");
}

static void print_bash_values(FILE *out, const struct command *command)
{
    struct completion_option option;
    for (const char *help = command->help; (help = next_option(help, &option));)
        for (int i = 0; i < OPTION_NAMES && option.names[i][0]; i++)
            if (option.kind == ARGUMENT_VALUES)
                fprintf(out, "    '%s %s') values='%s' ;;\n", command->name, option.names[i],
                        option.values);
}

static const char bash_start[] =
    "# What bash completes after onespace: made by `onespace completion bash`.\n"
    "_onespace()\n"
    "{\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} at\n"
    "    local options='' separate='' program='' values=''\n"
    "    if ((COMP_CWORD == 1)) || [[ $command == help ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W '";

static const char bash_middle[] =
    "    # An option with an argument in the next word; and where a program is named, its own "
    "begin.\n"
    "    for ((at = 2; at < COMP_CWORD; at++)); do\n"
    "        case ${COMP_WORDS[at]} in\n"
    "        -*) [[ \" $separate \" == *\" ${COMP_WORDS[at]} \"* ]] && ((at++)) ;;\n"
    "        *) [[ $program ]] && return ;;\n"
    "        esac\n"
    "    done\n"
    "    case \"$command ${COMP_WORDS[COMP_CWORD - 1]}\" in\n";

static const char bash_end[] =
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

static void print_bash(FILE *out)
{
    fputs(bash_start, out);
    print_bash_commands(out);
    fprintf(out, "help' -- \"$word\")\n        return\n    fi\n    case $command in\n");
    for (const struct command *command = commands; command->name; command++)
        print_bash_case(out, command);
    fprintf(out, "    *) return ;;\n    esac\n");
    fputs(bash_middle, out);
    for (const struct command *command = commands; command->name; command++)
        print_bash_values(out, command);
    fputs(bash_end, out);
}

/* ---- zsh: a function for a directory of $fpath ---- */

/* Within single quotes; `special` get a backslash. */
static void print_zsh_text(FILE *out, const char *text, const char *special)
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

static void print_zsh_option(FILE *out, const struct completion_option *option)
{
    for (int i = 0; i < OPTION_NAMES && option->names[i][0]; i++) {
        fprintf(out, " \\\n            '%s%s[", option->names[i],
                option->kind == ARGUMENT_OPTIONAL ? "=-" : "");
        print_zsh_text(out, option->text, "[]:\\");
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

static void print_zsh_case(FILE *out, const struct command *command)
{
    struct completion_option option;
    fprintf(out, "    %s)\n        _arguments -s -S", command->name);
    if (has_program(command))
        fprintf(out, " -A '-*'");
    for (const char *help = command->help; (help = next_option(help, &option));)
        print_zsh_option(out, &option);
    if (has_program(command))
        fprintf(out, " \\\n            '(-):program:_command_names -e' '*::argument:_normal'\n");
    else
        fprintf(out, " \\\n            '*:file:_files'\n");
    fprintf(out, "        ;;\n");
}

static void print_zsh(FILE *out)
{
    fprintf(out, "#compdef onespace\n"
                 "# What zsh completes after onespace: made by `onespace completion zsh`.\n"
                 "_onespace()\n{\n    local command\n    local -a commands\n    commands=(\n");
    for (const struct command *command = commands; command->name; command++) {
        fprintf(out, "        '%s:", command->name);
        print_zsh_text(out, command->purpose, ":\\");
        fprintf(out, "'\n");
    }
    fprintf(out, "        'help:say more of a command'\n    )\n"
                 "    if ((CURRENT == 2)) || [[ $words[2] == help ]]; then\n"
                 "        _describe command commands\n        return\n    fi\n"
                 "    command=$words[2]\n    shift words\n    ((CURRENT--))\n"
                 "    case $command in\n");
    for (const struct command *command = commands; command->name; command++)
        print_zsh_case(out, command);
    fprintf(out, "    esac\n}\n"
                 "if [[ $funcstack[1] == _onespace ]]; then\n    _onespace \"$@\"\n"
                 "else\n    compdef _onespace onespace\nfi\n");
}

/* ---- fish ---- */

static void print_fish_quoted(FILE *out, const char *text)
{
    putc('\'', out);
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            putc('\\', out);
        putc(*text, out);
    }
    putc('\'', out);
}

static void print_fish_option(FILE *out, const struct command *command,
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
    print_fish_quoted(out, option->text);
    putc('\n', out);
}

static void print_fish(FILE *out)
{
    struct completion_option option;
    fprintf(out, "# What fish completes after onespace: made by `onespace completion fish`.\n");
    for (const struct command *command = commands; command->name; command++) {
        fprintf(out, "complete -c onespace -n __fish_use_subcommand -f -a %s -d ", command->name);
        print_fish_quoted(out, command->purpose);
        putc('\n', out);
    }
    fprintf(out,
            "complete -c onespace -n __fish_use_subcommand -f -a help -d 'say more of a command'\n"
            "complete -c onespace -n '__fish_seen_subcommand_from help' -f -a '");
    for (const struct command *command = commands; command->name; command++)
        fprintf(out, "%s ", command->name);
    fprintf(out, "'\n");
    for (const struct command *command = commands; command->name; command++)
        for (const char *help = command->help; (help = next_option(help, &option));)
            print_fish_option(out, command, &option);
}

/* ---- The command ---- */

const char completion_help[] =
    "usage: onespace completion bash|zsh|fish\n"
    "\n"
    "Prints a script with which the shell completes commands and options of onespace. "
    "Installations have it where shells search; elsewhere:\n"
    "\n"
    "  bash  source <(onespace completion bash)\n"
    "  zsh  onespace completion zsh >DIRECTORY/_onespace, a directory of $fpath\n"
    "  fish  onespace completion fish | source\n"
    "\n"
    "  -h, --help  print this help\n"
    "\n"
    "Exit status: 0; 2 on a usage error.\n";

int command_completion(int argc, char **argv)
{
    static const struct {
        const char *shell;
        void (*print)(FILE *);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    static const struct command_option options[] = {{.name = NULL}};
    if (options_parse(argc, argv, options, completion_help) != 0)
        return 2;
    for (size_t i = 0; optind + 1 == argc && i < sizeof(shells) / sizeof(shells[0]); i++)
        if (strcmp(argv[optind], shells[i].shell) == 0) {
            shells[i].print(stdout);
            return fflush(stdout) == 0 ? 0 : EXIT_FAILURE;
        }
    fprintf(stderr, "onespace completion: name a shell: bash, zsh or fish\n");
    return 2;
}
