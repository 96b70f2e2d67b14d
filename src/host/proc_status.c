/* src/host/proc_status.c: see proc_status.h. */
#include "host/proc_status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

char *proc_status_read(int pid)
{
    char path[64], *text = NULL;
    size_t room = 0;
    if (pid)
        snprintf(path, sizeof(path), "/proc/%d/status", pid);
    else
        strcpy(path, "/proc/self/status");
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

const char *proc_status_field(const char *status, const char *field)
{
    size_t length = strlen(field);
    for (const char *end = strchr(status, '\n'); end; end = strchr(end + 1, '\n'))
        if (strncmp(end + 1, field, length) == 0)
            return end + 1 + length + strspn(end + 1 + length, " \t");
    return NULL;
}
