/* src/space/registry_abi.c: the registry's header, and the check whether a registry is of this
 * version. Freestanding: the agent and libxpmem link it, without the rest of the layer. */
#include "base/shared_header.h"
#include "space/registry.h"

struct shared_header registry_header(void)
{
    return shared_header_of(SPACE_MAGIC, sizeof(struct space));
}

int registry_matches(const struct space *space, const char *file)
{
    struct shared_header own = registry_header();
    if (shared_header_matches(&space->header, &own))
        return 1;
    if (file)
        shared_header_report("registry", &space->header, space->library, &own, file);
    return 0;
}
