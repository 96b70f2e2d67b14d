/* tests/registry/change.c: see change.h. */
#include "change.h"

#include "space/registry.h"

void change_abi(uint32_t abi)
{
    space_registry()->header.abi = abi;
}

void restore_abi(void)
{
    change_abi(SPACE_ABI);
}

void change_layout(uint64_t add)
{
    space_registry()->header.layout += add;
}
