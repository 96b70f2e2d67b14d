/* tests/parallel/probe_team.c: see probe_team.h. The block's header is C, hence this file. */
#include "probe_team.h"

#include "parallel/team.h"

uint32_t probe_team_word(const void *block)
{
    return atomic_load(&((const struct team_block *)block)->generation);
}

uint32_t probe_team_arrived(const void *block)
{
    return atomic_load(&((const struct team_block *)block)->arrived);
}
