/* cmd/completion/command.c: onespace completion: what a shell completes after `onespace`. */
#include "cmd/completion/completion.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/lib/options.h"

const char completion_help[] =
    "usage: onespace completion bash|zsh|fish\n"
    "\n"
    "Prints what makes the shell complete commands and options of onespace. An installation has it "
    "where shells look; else:\n"
    "\n"
    "  bash  source <(onespace completion bash)\n"
    "  zsh  onespace completion zsh >DIRECTORY/_onespace, a directory of $fpath\n"
    "  fish  onespace completion fish | source\n"
    "\n"
    "  -h, --help\n"
    "\n"
    "Exit status: 0; 2 wrong usage.\n";

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

const char *completion_next(const char *help, struct completion_option *option)
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

int completion_has_program(const struct command *command)
{
    return strstr(command->help, "PROGRAM [ARGUMENT") != NULL;
}

int command_completion(int argc, char **argv)
{
    static const struct {
        const char *shell;
        void (*print)(FILE *);
    } shells[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    argv[0] = "onespace completion";
    for (int option; (option = options_next(argc, argv, "+h", options)) != -1;) {
        if (option == 'h') {
            help_print(stdout, completion_help);
            return 0;
        }
        fprintf(stderr, "Try `onespace completion --help`.\n");
        return 2;
    }
    for (size_t i = 0; optind + 1 == argc && i < sizeof(shells) / sizeof(shells[0]); i++)
        if (strcmp(argv[optind], shells[i].shell) == 0) {
            shells[i].print(stdout);
            return fflush(stdout) == 0 ? 0 : EXIT_FAILURE;
        }
    fprintf(stderr, "onespace completion: name a shell: bash, zsh or fish\n");
    return 2;
}
