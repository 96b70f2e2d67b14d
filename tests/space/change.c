/* tests/space/change.c: see change.h. */
#include "change.h"

#include "space/registry.h"

void change_tag(uint64_t tag)
{
    space_registry()->header.tag = tag;
}

void restore_tag(void)
{
    change_tag(registry_header().tag);
}
