/* src/registry/shared.h: mappings that several tasks use at one address.
 *
 * A shared mapping of an object that another task has mapped alike is that task's mapping, counted
 * (space/shared.h has the protocol, docs/memory.md the rules). Each entry has addresses of its own,
 * a window, computed from its index: nothing else is ever placed there, so whatever lies in a
 * window may be unmapped with the entry. There are three sizes of windows, the largest first. */
#ifndef ONESPACE_REGISTRY_SHARED_H
#define ONESPACE_REGISTRY_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

#include "registry/layout.h"

enum {
    SPACE_SHARED_HUGE = 2,   /* windows of 512 GiB */
    SPACE_SHARED_LARGE = 32, /* of 64 GiB */
    SPACE_SHARED_SMALL = 2048,
    SPACE_SHARED_MAX = SPACE_SHARED_HUGE + SPACE_SHARED_LARGE + SPACE_SHARED_SMALL,
};

/* Behind the tasks' ranges, 5 TiB in all: below what the kernel places at random. */
#define SHARED_START        (LAYOUT_REGION + LAYOUT_SLOTS * LAYOUT_RANGE)
#define SHARED_HUGE_WINDOW  (512 * LAYOUT_GIB)
#define SHARED_LARGE_WINDOW (64 * LAYOUT_GIB)
#define SHARED_SMALL_WINDOW LAYOUT_GIB
#define SHARED_LARGE_START  (SHARED_START + SPACE_SHARED_HUGE * SHARED_HUGE_WINDOW)
#define SHARED_SMALL_START  (SHARED_LARGE_START + SPACE_SHARED_LARGE * SHARED_LARGE_WINDOW)
#define SHARED_END          (SHARED_SMALL_START + SPACE_SHARED_SMALL * SHARED_SMALL_WINDOW)

/* States of an entry; of all but FREE, LIVE and STUCK the slot whose task made it so is in the bits
 * above. FREE -> FILLING -> LIVE -> GOING -> FREE. */
enum shared_state {
    SHARED_FREE,
    SHARED_FILLING, /* its creator writes the key and maps it */
    SHARED_LIVE,
    SHARED_GOING, /* somebody found it unused and unmaps it, or finds that it is used after all */
    SHARED_OWN,   /* of one task alone, which has changed it: nobody joins any more */
    SHARED_STUCK, /* it could not be unmapped (mseal) */
};

#define SHARED_STATE_BITS 8

/* What is mapped, and how: two mappings with the same key are interchangeable. */
struct space_shared_key {
    uint64_t device, inode; /* of System V segments ~0 and the identifier */
    uint64_t offset, size;
    uint32_t prot;
    uint32_t may_write; /* whether mprotect could add PROT_WRITE */
};

struct space_shared_mapping {
    _Atomic uint32_t state; /* compare-and-swap by any task and the reaper */
    uint32_t reserved;
    struct space_shared_key key; /* written in FILLING; constant from LIVE until GOING */
    /* Bit per slot whose task uses it. Set by that task only, cleared by it or the reaper. */
    _Atomic uint64_t users[LAYOUT_SLOTS / 64];
};

struct space_shared {
    _Atomic uint32_t reach;    /* no entry from this index on was ever used; only raised */
    _Atomic uint32_t reserved; /* always 0 */
    /* Of the key of a LIVE entry, never 0; 0: there is nothing to find. By who made it LIVE, and
     * by who found it unused or made it its own. */
    _Atomic uint64_t hashes[SPACE_SHARED_MAX];
    struct space_shared_mapping mappings[SPACE_SHARED_MAX];
};

static inline int shared_holds(uintptr_t address)
{
    return address >= SHARED_START && address < SHARED_END;
}

#endif
