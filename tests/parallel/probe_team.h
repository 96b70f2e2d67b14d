/* tests/parallel/probe_team.h: the barrier in the block of a team. */
#ifndef ONESPACE_TESTS_PARALLEL_PROBE_TEAM_H
#define ONESPACE_TESTS_PARALLEL_PROBE_TEAM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint32_t probe_team_word(const void *block);    /* on which members sleep */
uint32_t probe_team_arrived(const void *block); /* members so far */

#ifdef __cplusplus
}
#endif
#endif
