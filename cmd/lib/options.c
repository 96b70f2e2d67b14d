/* cmd/lib/options.c: see options.h. */
#include "cmd/lib/options.h"

#include "cmd/lib/help.h"

#include <stdio.h>
#include <string.h>

static const char *name_at(const void *options, int index)
{
    return ((const struct option *)options)[index].name;
}

/* getopt has said that there is no such option. */
static void suggest(char **argv, const char *given, const struct option *options)
{
    char name[64];
    size_t length = strcspn(given, "=");
    snprintf(name, sizeof(name), "%.*s", (int)length, given);
    const char *like = help_most_like(name, name_at, options);
    if (like)
        fprintf(stderr, "%s: did you mean --%s?\n", argv[0], like);
}

/* Launchers have -np: read as --np where that is an option. */
static void read_np(int argc, char **argv, const struct option *options)
{
    static char np[] = "--np";
    int at = optind ? optind : 1;
    if (at >= argc || strcmp(argv[at], "-np") != 0)
        return;
    for (; options->name; options++)
        if (strcmp(options->name, "np") == 0)
            argv[at] = np;
}

int options_next(int argc, char **argv, const char *letters, const struct option *options)
{
    int index = -1;
    read_np(argc, argv, options);
    int at = optind ? optind : 1;
    int option = getopt_long(argc, argv, letters, options, &index);
    if (option == '?' && at < argc && strncmp(argv[at], "--", 2) == 0 && !optopt)
        suggest(argv, argv[at] + 2, options);
    if (index < 0)
        return option;
    int is_separate = optarg && optarg == argv[optind - 1];
    const char *given = argv[optind - 1 - is_separate];
    size_t length = strcspn(given, "=");
    if (length == strlen(options[index].name) + 2) /* "--" */
        return option;
    fprintf(stderr, "%s: no option is called %.*s; there is --%s\n", argv[0], (int)length, given,
            options[index].name);
    return '?';
}
