/* tests/registry/change.h: makes the registry of the calling root's space look like another
 * version's. */
#ifndef ONESPACE_TESTS_REGISTRY_CHANGE_H
#define ONESPACE_TESTS_REGISTRY_CHANGE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void change_abi(uint32_t abi);
void restore_abi(void);
void change_layout(uint64_t add);

#ifdef __cplusplus
}
#endif
#endif
