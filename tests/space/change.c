/* tests/space/change.c: see change.h. */
#include "change.h"

#include "space/registry.h"

uint64_t change_tag(uint64_t tag)
{
    uint64_t old = space_registry()->header.tag;
    space_registry()->header.tag = tag;
    return old;
}
