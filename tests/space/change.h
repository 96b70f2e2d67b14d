/* tests/space/change.h: makes the registry of the calling root's space look like another
 * version's. */
#ifndef ONESPACE_TESTS_SPACE_CHANGE_H
#define ONESPACE_TESTS_SPACE_CHANGE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the previous tag. */
uint64_t change_tag(uint64_t tag);

#ifdef __cplusplus
}
#endif
#endif
