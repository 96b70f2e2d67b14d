/* src/registry/exports.h: the table of exported names. */
#ifndef ONESPACE_REGISTRY_EXPORTS_H
#define ONESPACE_REGISTRY_EXPORTS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

enum { SPACE_EXPORTS = 16384, SPACE_EXPORT_NAME = 96 };

/* One exported name. The owner's threads write it, everybody reads it (space/exports.c). */
enum export_state { EXPORT_FREE, EXPORT_CLAIMED, EXPORT_LIVE };
enum { EXPORT_KIND_MASK = 0xff, EXPORT_SLOT_SHIFT = 8, EXPORT_USE_SHIFT = 32 };
struct space_export {
    /* enum export_state, above it the owner's slot, above that how often the entry was used:
     * FREE -> CLAIMED (compare-and-swap) -> LIVE -> FREE, by the owner, or by the reaper to FREE
     * when the owner is dead. */
    _Atomic uint64_t state;
    _Atomic int32_t owner; /* id */
    _Atomic uint32_t hash;
    _Atomic uintptr_t address;
    _Atomic uint64_t size;
    _Atomic char name[SPACE_EXPORT_NAME];
};

static_assert(SPACE_EXPORTS <= UINT16_MAX, "a search may reach all entries");

#endif
