/* src/registry/abi.c: the layout of the registry, asserted, and its header.
 *
 * A field that is added, moved or resized stops the build here, so that no layout changes
 * unnoticed: raise SPACE_ABI and let `scripts/abi-rows` print the table again. Freestanding. */
#include <assert.h>
#include <stddef.h>

#include "arch/trampoline.h"
#include "base/raw.h"
#include "base/shared_header.h"
#include "base/text.h"
#include "registry/abi_rows.h"
#include "registry/child.h"
#include "registry/space.h"

SPACE_ROWS(SHARED_ASSERT)

struct shared_header space_header(void)
{
    static const uint32_t numbers[] = {SPACE_ROWS(SHARED_HASHED)};
    return (struct shared_header){
        .magic = SPACE_MAGIC,
        .abi = SPACE_ABI,
        .size = sizeof(struct space),
        .layout = shared_layout(numbers, sizeof(numbers) / sizeof(numbers[0])),
    };
}

static void tell(const struct space *space, const struct shared_header *own, const char *file)
{
    char text[2 * SHARED_TEXT + 1024], *end = text_append(text, "onespace: ");
    end = text_append_some(end, file, 256);
    end = text_append(
        end,
        " does not fit the space that this task is in and leaves it alone: its registry is of ");
    end = shared_describe(end, own);
    end = text_append(end, ", the space's, made by ");
    end = text_append_some(end, space->library, sizeof(space->library));
    end = text_append(end, ", of ");
    end = text_append(shared_describe(end, &space->header), "; install one version for both\n");
    raw(__NR_write, 2, text, end - text);
}

int space_is_ours(const struct space *space, const char *file)
{
    struct shared_header own = space_header();
    if (shared_matches(&space->header, &own))
        return 1;
    if (file)
        tell(space, &own, file);
    return 0;
}
