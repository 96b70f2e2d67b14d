/* src/host/proc_status.c: see proc_status.h. */
#include "host/proc_status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

char *proc_text_read(int pid, const char *name)
{
    char path[64], *text = NULL;
    size_t room = 0;
    if (pid)
        snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    else
        snprintf(path, sizeof(path), "/proc/self/%s", name);
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    ssize_t length = getdelim(&text, &room, 0, file); /* it has no 0 byte: all of it */
    fclose(file);
    if (length >= 0)
        return text;
    free(text);
    errno = ESRCH;
    return NULL;
}

char *proc_status_read(int pid)
{
    return proc_text_read(pid, "status");
}

const char *proc_status_field(const char *status, const char *field)
{
    size_t length = strlen(field);
    for (const char *end = strchr(status, '\n'); end; end = strchr(end + 1, '\n'))
        if (strncmp(end + 1, field, length) == 0)
            return end + 1 + length + strspn(end + 1 + length, " \t");
    return NULL;
}

static const char *parse_limit(const char *at, rlim_t *limit)
{
    static const char unlimited[] = "unlimited";
    char *end;
    at += strspn(at, " ");
    if (strncmp(at, unlimited, sizeof(unlimited) - 1) == 0) {
        *limit = RLIM_INFINITY;
        return at + sizeof(unlimited) - 1;
    }
    *limit = strtoull(at, &end, 10);
    return end == at ? NULL : end;
}

int proc_limits_parse(const char *text, struct rlimit *limits, unsigned count)
{
    enum { NAME_WIDTH = 25 }; /* the names have blanks in them */
    const char *line = strchr(text, '\n');
    for (unsigned i = 0; i < count; i++, line = strchr(line, '\n')) {
        if (!line || strcspn(++line, "\n") <= NAME_WIDTH)
            return -EPROTO;
        const char *at = parse_limit(line + NAME_WIDTH, &limits[i].rlim_cur);
        if (!at || !parse_limit(at, &limits[i].rlim_max))
            return -EPROTO;
    }
    return 0;
}
