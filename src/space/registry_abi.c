/* src/space/registry_abi.c: the layout of the registry, asserted, and its header.
 *
 * A field that is added, moved or resized stops the build here, so that no layout changes
 * unnoticed: raise SPACE_ABI and let `scripts/abi-rows` print the table again. Freestanding. */
#include <assert.h>
#include <stddef.h>

#include "arch/abi_rows.h"
#include "arch/trampoline.h"
#include "base/shared_header.h"
#include "space/abi_rows.h"
#include "space/child.h"
#include "space/registry.h"

#define ROWS(ROW) SPACE_ROWS(ROW) ARCH_ROWS(ROW)

ROWS(SHARED_ASSERT)

struct shared_header registry_header(void)
{
    return SHARED_HEADER(SPACE_MAGIC, SPACE_ABI, struct space, ROWS);
}

int registry_matches(const struct space *space, const char *file)
{
    struct shared_header own = registry_header();
    if (shared_matches(&space->header, &own))
        return 1;
    if (file)
        shared_tell("registry", &space->header, space->library, &own, file);
    return 0;
}
