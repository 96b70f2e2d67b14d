/* src/host/room/groups.c: see groups.h. */
#include "host/room/groups.h"

#include <stddef.h>

#include "host/room/cgroup.h"

struct lowest {
    const char *const *names;
    const char *used;
    uint64_t least;
};

static void visit(const char *directory, void *context)
{
    struct lowest *lowest = context;
    uint64_t limit, taken = 0;
    for (unsigned i = 0; i < 2; i++) {
        if (cgroup_number(directory, lowest->names[i], &limit) != 0)
            continue;
        if (lowest->used)
            (void)cgroup_number(directory, lowest->used, &taken); /* not there: nothing is taken */
        uint64_t left = limit > taken ? limit - taken : 0;
        lowest->least = left < lowest->least ? left : lowest->least;
    }
}

uint64_t groups_left(const char *controller, const char *const names[2], const char *used)
{
    struct lowest lowest = {names, used, GROUPS_UNLIMITED};
    cgroup_each(0, controller, visit, &lowest);
    return lowest.least;
}

uint64_t groups_limit(const char *controller, const char *const names[2])
{
    return groups_left(controller, names, NULL);
}
