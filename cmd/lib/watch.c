/* cmd/lib/watch.c: see watch.h. */
#include "cmd/lib/watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cmd/lib/output.h"

double watch_seconds(const char *command, const char *argument)
{
    enum { MOST = 86400 };
    char *end;
    double seconds = argument ? strtod(argument, &end) : 2;
    if (!argument || (end != argument && !*end && seconds >= 0.1 && seconds <= MOST))
        return seconds;
    fprintf(stderr, "%s: --watch=%s: give seconds from 0.1 to %d, or nothing. Try `%s --help`.\n",
            command, argument, MOST, command);
    return -1;
}

static unsigned terminal_lines(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1 ? size.ws_row : 24;
}

/* One look over the one before: from the upper left corner, each line cut at the right margin (no
 * automatic wrap), the rest of it and of the screen cleared. The last line is the cursor's. */
static void replace(char *text)
{
    unsigned left = terminal_lines() - 1;
    printf("\033[H\033[?7l");
    for (char *line = text, *end; left > 0 && (end = strchr(line, '\n')); line = end + 1, left--)
        printf("%.*s\033[K\n", (int)(end - line), line);
    printf("\033[?7h\033[J");
}

static int look(int (*show)(FILE *out, unsigned width, void *context), void *context, int is_first)
{
    int is_terminal = isatty(STDOUT_FILENO);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return EXIT_FAILURE;
    int result = show(out, output_width(stdout), context);
    if (fclose(out) != 0)
        result = EXIT_FAILURE;
    if (is_terminal && is_first)
        printf("\033[2J");
    if (is_terminal && text)
        replace(text);
    else
        printf("%s%s", is_first ? "" : "\n", text ? text : "");
    free(text);
    return fflush(stdout) == 0 ? result : EXIT_FAILURE;
}

int watch(double seconds, int (*show)(FILE *out, unsigned width, void *context), void *context)
{
    if (seconds <= 0)
        return show(stdout, output_width(stdout), context);
    struct timespec pause = {.tv_sec = (time_t)seconds};
    pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
    int result = look(show, context, 1);
    while (result == 0) {
        nanosleep(&pause, NULL);
        result = look(show, context, 0);
    }
    return result;
}
