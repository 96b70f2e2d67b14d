/* cmd/run/collectives.c: see collectives.h. */
#include "cmd/run/collectives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/names/functions.h"

static const char *const operations[] = {
#define NAME(name) #name,
    MPI_COLLECTIVES(NAME)
#undef NAME
};

static int is_operation(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        if (strlen(operations[i]) == length && strncasecmp(operations[i], name, length) == 0)
            return 1;
    return 0;
}

int collectives_leave(const char *names)
{
    for (const char *name = names;; name++) {
        size_t length = strcspn(name, ",");
        if (!is_operation(name, length)) {
            fprintf(stderr,
                    "onespace run: --collectives off=%s: %.*s is not the name of a collective "
                    "operation, such as allreduce, scan or gatherv\n",
                    names, (int)length, name);
            return -1;
        }
        name += length;
        if (!*name)
            break;
    }
    return setenv(COLLECTIVES_OFF_ENV, names, 1);
}
