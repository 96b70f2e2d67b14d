/* cmd/lib/options.c: see options.h. */
#include "cmd/lib/options.h"

#include <stdio.h>
#include <string.h>

int options_next(int argc, char **argv, const char *letters, const struct option *options)
{
    int index = -1;
    int option = getopt_long(argc, argv, letters, options, &index);
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
