/* src/space/shared_mappings.h: mappings that several tasks use at one address.
 *
 * When a task maps a shared object that another task has mapped in the same way, it uses that
 * task's mapping, which is counted (docs/memory.md has the rules). Each entry has a window:
 * addresses of its own, computed from its index. No other mapping is placed there, so the whole
 * window is unmapped with the entry.
 *
 * An entry's state and its users' bits decide together (all sequentially consistent):
 *
 *   joining: own bit = 1                 unmapping: LIVE -> UNMAPPING
 *            LIVE and the same key?                 any bit set? back to LIVE, and check again
 *            else bit = 0, and unmap if unused      else clear the hash, unmap, FREE
 *
 * At least one of the two sees the other, and the last to clear a bit unmaps. A task that died in
 * between leaves its slot in the state or in a bit, from which the reaper continues. */
#ifndef ONESPACE_SPACE_SHARED_MAPPINGS_H
#define ONESPACE_SPACE_SHARED_MAPPINGS_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "space/layout.h"

struct space;
struct space_slot;

/* ROW(name, 4 KiB pages of a window, number of windows), the smallest first. A mapping goes into
 * the smallest window in which it leaves a page free. Windows of less than 2 MiB are adjacent, so
 * that many mappings share a page of page tables; larger ones begin at multiples of 2 MiB, as huge
 * pages require. All sizes are an odd number of pages, or of 2 MiB; otherwise the first pages of
 * all mappings would share a few sets of the TLB. */
#define SHARED_WINDOWS(ROW)                                                                        \
    ROW(16K, 5, 4096)                                                                              \
    ROW(32K, 9, 512)                                                                               \
    ROW(64K, 17, 512)                                                                              \
    ROW(128K, 33, 512)                                                                             \
    ROW(256K, 65, 512)                                                                             \
    ROW(512K, 129, 512)                                                                            \
    ROW(1M, 257, 512)                                                                              \
    ROW(6M, 3 * 512, 2048)                                                                         \
    ROW(18M, 9 * 512, 512)                                                                         \
    ROW(66M, 33 * 512, 256)                                                                        \
    ROW(258M, 129 * 512, 256)                                                                      \
    ROW(1G, 513 * 512, 256)                                                                        \
    ROW(64G, (32 * 1024 + 1) * 512, 32)                                                            \
    ROW(512G, (256 * 1024 + 1) * 512, 2)

#define SHARED_FIRST_ENTRY(name, pages, count)                                                     \
    SPACE_SHARED_##name, SPACE_SHARED_##name##_LAST = SPACE_SHARED_##name + (count)-1,
#define SHARED_START_2M(name, pages, count)                                                        \
    SHARED_AT_##name,                                                                              \
        SHARED_AT_##name##_LAST = SHARED_AT_##name + (int)((uint64_t)(pages) * (count) / 512) - 1,
#define SHARED_SIZE(name, pages, count)  SHARED_SIZE_##name,
#define SHARED_IS_2M(name, pages, count) &&(pages)*UINT64_C(1) * (count) % 512 == 0
enum { SHARED_WINDOWS(SHARED_FIRST_ENTRY) SPACE_SHARED_MAX };
enum { SHARED_WINDOWS(SHARED_START_2M) SHARED_AT_END }; /* multiples of 2 MiB from SHARED_START */
enum { SHARED_WINDOWS(SHARED_SIZE) SPACE_SHARED_SIZES };

static_assert(1 SHARED_WINDOWS(SHARED_IS_2M), "windows of each size begin at a multiple of 2 MiB");

/* Behind the tasks' ranges, below the addresses that the kernel chooses at random. */
#define SHARED_START (LAYOUT_REGION + LAYOUT_SLOTS * LAYOUT_RANGE)
#define SHARED_END   (SHARED_START + SHARED_AT_END * (2 * LAYOUT_MIB))

static_assert(SHARED_END - SHARED_START < 5 * 1024 * LAYOUT_GIB, "85 TiB is the kernel's");

/* States of an entry: FREE -> FILLING -> LIVE -> UNMAPPING -> FREE. In FILLING, UNMAPPING and
 * EXCLUSIVE the bits above hold the slot of the task that made the transition. */
enum shared_state {
    SHARED_FREE,
    SHARED_FILLING, /* its creator writes the key and maps it */
    SHARED_LIVE,
    SHARED_UNMAPPING, /* a task found it unused: it unmaps the entry, or finds a new user */
    SHARED_EXCLUSIVE, /* of one task, which has changed it: no other task joins */
    SHARED_STUCK,     /* it could not be unmapped (mseal) */
};

#define SHARED_STATE_BITS 8

/* The object and how it is mapped. Two mappings with the same key are interchangeable. */
struct space_shared_key {
    uint64_t device, inode; /* for System V segments: ~0 and the identifier */
    uint64_t offset, size;
    uint32_t prot;
    uint32_t may_write; /* whether mprotect could add PROT_WRITE */
};

struct space_shared_mapping {
    _Atomic uint32_t state; /* compare-and-swap by any task and the reaper */
    uint32_t reserved;
    struct space_shared_key key; /* written in FILLING; constant from LIVE until UNMAPPING */
    /* Bit per slot whose task uses it. Set by that task only, cleared by it or the reaper. */
    _Atomic uint64_t users[LAYOUT_SLOTS / 64];
};

struct space_shared {
    /* By class of windows: the number of entries, from the first on, that were ever used. Only
     * raised. */
    _Atomic uint32_t reach[SPACE_SHARED_SIZES];
    /* Hash of the key of a LIVE entry, or 0. Written by the task that makes the entry LIVE, and
     * cleared by the one that unmaps it or makes it exclusive. */
    _Atomic uint64_t hashes[SPACE_SHARED_MAX];
    struct space_shared_mapping mappings[SPACE_SHARED_MAX];
};

static inline int shared_windows_contain(uintptr_t address)
{
    return address >= SHARED_START && address < SHARED_END;
}

/* All functions but the reaper's are called with the member's lock held (space/locks.h), so each
 * bit has one writer at a time. Freestanding. */

/* A program that maps the same memory again gets another address, which the next task's second
 * mapping shares. Further duplicates are not shared. */
enum { SHARED_MAX_DUPLICATES = 2 };

/* Makes the task a user of a mapping with this key that it does not use yet. Returns its address,
 * or 0 if there is none. */
uintptr_t shared_mapping_join(struct space *space, struct space_slot *self,
                              const struct space_shared_key *key);

/* Claims an entry for a mapping of that key. Returns its index, or -1 if none is free or the task
 * has SHARED_MAX_DUPLICATES of that key. The caller maps the object at *start and then calls
 * shared_mapping_publish, or shared_mapping_cancel. */
int shared_mapping_create(struct space *space, struct space_slot *self,
                          const struct space_shared_key *key, uintptr_t *start);
void shared_mapping_cancel(struct space *space, int index);
/* The object is mapped: other tasks may join. Returns the address to use, which is another entry's
 * if one with that key was published meanwhile. */
uintptr_t shared_mapping_publish(struct space *space, struct space_slot *self, int index);

/* The index of the entry in whose window the address lies; shared_windows_contain is true for it.
 */
int shared_window_index(uintptr_t address);
/* The entry's window. The mapping begins at its start. */
uintptr_t shared_window_start(int index);
uintptr_t shared_window_end(int index);
/* The entries with windows of one size: their number, and the first one's index. */
int shared_window_class(int size, int *first);
int shared_mapping_has_user(const struct space *space, const struct space_slot *slot, int index);
/* The same of a copy of the entry. */
static inline int shared_mapping_is_used_by(const struct space_shared_mapping *mapping,
                                            unsigned slot)
{
    return atomic_load_explicit(&mapping->users[slot / 64], memory_order_relaxed) >> slot % 64 & 1;
}
/* The number of users of mappings with this key, minus the number of these mappings. */
unsigned extra_attachments(const struct space *space, const struct space_shared_key *key);

/* If the task is the only user, makes the entry exclusive and returns 1; otherwise returns 0. */
int shared_mapping_make_exclusive(struct space *space, struct space_slot *self, int index);
/* Makes a free entry the task's own, for a mapping in its window. Returns whether it was free. */
int shared_mapping_claim(struct space *space, struct space_slot *self, int index);
/* Whether the entry is exclusive. */
int shared_mapping_is_exclusive(const struct space *space, int index);
/* The task no longer uses the entry. */
void shared_mapping_release(struct space *space, struct space_slot *self, int index);
/* By the reaper: the task has ended. */
void shared_mappings_release_all(struct space *space, struct space_slot *slot);

#endif
