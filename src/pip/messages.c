/* src/pip/messages.c: messages to the user: one line each, by one write. */
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "state.h"

size_t pip_idstr(char *buffer, size_t size)
{
    struct record *self = state_self();
    char who[16] = "-";
    if (self)
        snprintf(who, sizeof(who), self->pipid < 0 ? "R" : "T%d", self->pipid);
    int length = snprintf(buffer, size, "[%d(%s)]", pip_gettid(), who);
    return length < 0 || (size_t)length >= size ? 0 : size - (size_t)length;
}

static int is_quiet(void)
{
    struct state *state = state_mine();
    return state ? state->quiet : getenv(PIP_ENV_QUIET) != NULL;
}

__attribute__((format(printf, 3, 0))) static void say(FILE *file, const char *kind,
                                                      const char *format, va_list list)
{
    char line[1536], who[64];
    if (is_quiet())
        return;
    pip_idstr(who, sizeof(who));
    int length = snprintf(line, sizeof(line), "PiP-%s%s ", kind, who);
    length += vsnprintf(line + length, sizeof(line) - (size_t)length - 1, format, list);
    if (length > (int)sizeof(line) - 2)
        length = (int)sizeof(line) - 2;
    line[length++] = '\n';
    fflush(file);
    (void)!write(fileno(file), line, (size_t)length);
}

void pip_info_fmesg(FILE *file, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(file ? file : stderr, "INFO", format, list);
    va_end(list);
}

void pip_info_mesg(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(stderr, "INFO", format, list);
    va_end(list);
}

void pip_warn_mesg(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(stderr, "WARN", format, list);
    va_end(list);
}

void pip_err_mesg(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(stderr, "ERR", format, list);
    va_end(list);
}
