/* src/space/shared_mappings.h: mappings that several tasks use at one address. */
#ifndef ONESPACE_SPACE_SHARED_MAPPINGS_H
#define ONESPACE_SPACE_SHARED_MAPPINGS_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "space/layout.h"

struct space;
struct space_slot;

/* Mappings that several tasks use at one address.
 *
 * A shared mapping of an object that another task has mapped alike is that task's mapping, counted
 * (space/shared_mappings.h has the protocol, docs/memory.md the rules). Each entry has addresses of
 * its own, a window, computed from its index: nothing else is ever placed there, so whatever lies
 * in a window may be unmapped with the entry. */

/* ROW(name, pages of 4 KiB of a window, how many), the smallest first. A mapping goes into the
 * smallest in which it leaves a page free. Windows of less than 2 MiB lie next to one another, so
 * that many mappings share a page of page tables; larger ones begin at multiples of 2 MiB, which
 * huge pages need. All are an odd number of pages, or of 2 MiB: otherwise the first pages of all
 * mappings would share a few sets of the TLB. */
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

/* Behind the tasks' ranges, below what the kernel places at random. */
#define SHARED_START (LAYOUT_REGION + LAYOUT_SLOTS * LAYOUT_RANGE)
#define SHARED_END   (SHARED_START + SHARED_AT_END * (2 * LAYOUT_MIB))

static_assert(SHARED_END - SHARED_START < 5 * 1024 * LAYOUT_GIB, "85 TiB is the kernel's");

/* States of an entry; of all but FREE, LIVE and STUCK the slot whose task made it so is in the bits
 * above. FREE -> FILLING -> LIVE -> GOING -> FREE. */
enum shared_state {
    SHARED_FREE,
    SHARED_FILLING, /* its creator writes the key and maps it */
    SHARED_LIVE,
    SHARED_UNMAPPING, /* somebody found it unused and unmaps it, or finds that it is used after all
                       */
    SHARED_EXCLUSIVE, /* of one task alone, which has changed it: nobody joins any more */
    SHARED_STUCK,     /* it could not be unmapped (mseal) */
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
    /* Of the entries with windows of one size so many were ever used, the first ones; only raised.
     */
    _Atomic uint32_t reach[SPACE_SHARED_SIZES];
    /* Of the key of a LIVE entry, never 0; 0: there is nothing to find. By who made it LIVE, and
     * by who found it unused or made it its own. */
    _Atomic uint64_t hashes[SPACE_SHARED_MAX];
    struct space_shared_mapping mappings[SPACE_SHARED_MAX];
};

static inline int shared_windows_contain(uintptr_t address)
{
    return address >= SHARED_START && address < SHARED_END;
}

/* Who uses which shared mapping, and unmapping it when nobody does.
 *
 * An entry's state decides together with its users' bits (all sequentially consistent):
 *
 *   joining: own bit = 1                 unmapping: LIVE -> GOING
 *            LIVE and the same key?                 any bit set? back to LIVE, and look again
 *            else bit = 0, and unmap if unused      else forget the hash, unmap, FREE
 *
 * so at least one of the two sees the other, and the last to clear a bit unmaps. A task that died
 * in between leaves its slot in the state or in a bit, and the reaper goes on from there.
 *
 * All functions but the reaper's are called with the member's lock held (space/locks.h): a task's
 * bit has one writer at a time. Freestanding. */

/* A program that maps the same memory again gets another address, which the next task's second
 * mapping shares in turn; what it maps more often is its own affair. */
enum { SHARED_MAX_DUPLICATES = 2 };

/* The address of a mapping with this key that the task does not use yet, and from now on uses; 0:
 * there is none. */
uintptr_t shared_mapping_join(struct space *space, struct space_slot *self,
                              const struct space_shared_key *key);

/* An entry for a mapping of that key: its index, or -1 if none is free or the task has
 * SHARED_MAX_DUPLICATES of that key already. *start is where it is to be mapped. Then
 * shared_mapping_publish() or shared_mapping_cancel(). */
int shared_mapping_create(struct space *space, struct space_slot *self,
                          const struct space_shared_key *key, uintptr_t *start);
void shared_mapping_cancel(struct space *space, int index);
/* It is mapped: others may join. The address: another's if one with that key was published
 * meanwhile. */
uintptr_t shared_mapping_publish(struct space *space, struct space_slot *self, int index);

/* The entry in whose window an address lies, which shared_windows_contain(). */
int shared_window_index(uintptr_t address);
/* Its window, at whose start its mapping begins. */
uintptr_t shared_window_start(int index);
uintptr_t shared_window_end(int index);
/* The entries with windows of one size: *first and those that follow. Their number. */
int shared_window_class(int size, int *first);
int shared_mapping_has_user(const struct space *space, const struct space_slot *slot, int index);
/* By how much the users of mappings with this key are more than the mappings. */
unsigned extra_attachments(const struct space *space, const struct space_shared_key *key);

/* The task, a user, alone uses the entry from now on: 0 if it does not. */
int shared_mapping_make_exclusive(struct space *space, struct space_slot *self, int index);
/* Whether some task has done that. */
int shared_mapping_is_exclusive(const struct space *space, int index);
/* The task uses it no more. */
void shared_mapping_release(struct space *space, struct space_slot *self, int index);
/* Reaper: the task has ended. */
void shared_mappings_release_all(struct space *space, struct space_slot *slot);

#endif
