/* src/insitu/channel.h: the channels of a space (onespace/insitu.h), in memory of the root's range.
 *
 * Tables of fixed size at a fixed address, mapped when the first channel is created. They outlive
 * every task, the reaper repairs them when a task dies, and `onespace ps` reads them from outside.
 * This header declares everything that programs share; the layout is part of the registry's ABI.
 *
 * A channel's steps pass through `depth` entries. Transitions of an entry, and the member that
 * makes them:
 *
 *   FREE      -> OPEN       the rank that decides the round (producer.c)
 *   OPEN      -> COMPLETE   the rank that publishes last; or -> FREE, if the step has no consumer
 *   COMPLETE  -> RECLAIMED  by compare-and-swap: a rank that decides a round, reclaims or closes
 *   RECLAIMED -> COMPLETE   the same rank, if a consumer came first; or -> FREE
 *
 * A consumer holds a step by a bit in its own word `holding`. Bit and state are sequentially
 * consistent and decide together, as in space/member.h:
 *
 *   consumer:  sets its bit                      producer:  COMPLETE -> RECLAIMED
 *              state COMPLETE of this step?                 any bit? back to COMPLETE
 *              it holds; else clears the bit                else the arrays are the producer's
 *
 * so at least one of the two sees the other. The only lock across programs is that for creating
 * channels (`lock`, channel.c), which the reaper unlocks if its owner has died. */
#ifndef ONESPACE_INSITU_CHANNEL_H
#define ONESPACE_INSITU_CHANNEL_H

#include "base/shared_header.h"
#include "onespace/insitu.h"
#include "space/registry.h"

enum {
    INSITU_NAME = ONESPACE_INSITU_NAME_MAX + 1,
    INSITU_ENTRIES = ONESPACE_INSITU_DEPTH_MAX,
    INSITU_MEMBERS = LAYOUT_SLOTS,
    INSITU_ROUNDS = 256,
    INSITU_PARTS = ONESPACE_INSITU_PARTS_MAX,
    INSITU_PART_BYTES = 32768,
};

/* ---- The content of a step: one part per rank and entry ---- */

/* The name first: a look-up touches only its cache line and the next one. */
struct insitu_dimension {
    uint64_t shape;
    int64_t stride;
    uint64_t global_shape, offset;
};
struct insitu_array {
    char name[INSITU_NAME];
    uint64_t address, bytes; /* bytes: what the elements span */
    uint32_t type, dimensions;
    uint64_t source; /* of a copy: the original's address */
    struct insitu_dimension along[ONESPACE_INSITU_DIMENSIONS];
    char units[ONESPACE_INSITU_UNITS_MAX + 1];
};
struct insitu_attribute {
    char name[INSITU_NAME];
    union {
        int64_t integer;
        double number;
        char text[ONESPACE_INSITU_TEXT_MAX + 1];
    } value;
    uint32_t type, unused[15];
};

/* Written by its rank while the entry is OPEN; published by the entry's state. */
struct insitu_part {
    uint32_t array_count, attribute_count;
    uintptr_t copy; /* the rank's memory for copies, or 0 */
    uint64_t copy_bytes;
    uint64_t unused[5];
    struct insitu_array arrays[ONESPACE_INSITU_ARRAYS];
    struct insitu_attribute attributes[ONESPACE_INSITU_ATTRIBUTES];
};
static_assert(sizeof(struct insitu_part) <= INSITU_PART_BYTES, "the distance between parts");

/* ---- Entries, rounds, members ---- */

enum insitu_entry_kind { ENTRY_FREE, ENTRY_OPEN, ENTRY_COMPLETE, ENTRY_RECLAIMED };
struct insitu_entry {
    /* enum insitu_entry_kind | rank that reclaims it (RECLAIMED) << 8 | the step's sequence number
     * (from 1) << 20. See above. The reaper makes a step COMPLETE again whose rank has died. */
    _Alignas(64) _Atomic uint64_t state;
    _Atomic uint64_t step;    /* the producer's number; set before OPEN */
    _Atomic uint32_t pending; /* ranks that have not published their part; each subtracts one */
    _Atomic uint32_t wanted;  /* 0: the step has no consumer. Set before OPEN */
};

/* The decision about the k-th begin of each rank (k from 1), at k % INSITU_ROUNDS. */
enum { ROUND_SKIPPED = 0xfe, ROUND_CLAIMED = 0xff };
struct insitu_round {
    _Atomic uint64_t word; /* k << 8 | index of the entry, ROUND_SKIPPED or ROUND_CLAIMED */
    _Atomic uint64_t step; /* the number that the deciding rank gave; set before it is decided */
};

/* `owner` is id + 1 of the member that owns the structure, 0: free. Claimed by compare-and-swap;
 * released by the member itself or, if it has died, the reaper, after all other fields are reset.
 */
struct insitu_rank {
    _Alignas(64) _Atomic uint32_t owner;
    _Atomic uint32_t closed;    /* sticky: it begins no further step; set before owner is cleared */
    _Atomic uint64_t rounds;    /* rounds begun so far; written by the rank */
    _Atomic uint64_t published; /* sequence number of the last; written by the rank */
};
struct insitu_consumer {
    _Alignas(64) _Atomic uint32_t owner;
    _Atomic uint32_t active;  /* 1 + mode, if the producer must take it into account */
    _Atomic uint32_t holding; /* bit per entry */
    _Atomic uint64_t seen;    /* sequence number of the last step it took */
};

/* An event that members wait for: a futex, and whether a member sleeps on it. A waiter sets
 * `has_waiter` before it tests its condition again; a member that changes the condition reads it
 * afterwards (both sequentially consistent): see insitu.h. */
struct insitu_event {
    _Atomic uint32_t generation, has_waiter;
};

/* ---- A channel ---- */

enum insitu_kind { CHANNEL_FREE, CHANNEL_CLAIMED, CHANNEL_LIVE, CHANNEL_FREEING };
enum { CHANNEL_KIND_MASK = 0xff, CHANNEL_SLOT_SHIFT = 8, CHANNEL_USE_SHIFT = 32 };

struct insitu_channel {
    /* enum insitu_kind, above it (CLAIMED, FREEING) the slot of the member that creates or frees
     * it, above that the number of uses. FREE -> CLAIMED -> LIVE by the creator, which has the
     * lock; CLAIMED -> FREEING -> FREE by the reaper, if the creator died; LIVE -> FREEING -> FREE
     * or LIVE by the member that left last, or by the reaper for it, as slot 0 (reaper_hook.c). */
    _Alignas(64) _Atomic uint64_t state;
    /* Constant while LIVE. */
    uint32_t policy, depth, ranks, consumers_wanted;
    char name[INSITU_NAME];
    _Atomic uint32_t joined;         /* ranks that have created the channel */
    _Atomic uint32_t consumers_high; /* consumers[] ever used; only grows */

    /* From producers to consumers. */
    /* Index of the entry of the newest step that may be taken | its sequence number << 8. Written
     * by the rank that completes a step, after the entry's state. */
    _Alignas(64) _Atomic uint64_t latest;
    _Atomic uint64_t complete; /* steps completed so far, wanted or not */
    _Atomic uint64_t last;     /* no step after this one; UINT64_MAX: not known. Only decreases */
    _Atomic uint32_t broken;   /* id + 1 of the producer that died; by the reaper, sticky */
    struct insitu_event step_event; /* a step is complete, or the channel ends */

    /* To producers. */
    _Alignas(64) struct insitu_event entry_event; /* a step was released or is complete, a rank or
                                                    consumer joined or left, a round is decided */
    _Atomic uint64_t opened;  /* steps begun so far; written by the rank that claimed a round */
    _Atomic uint64_t skipped; /* rounds skipped so far; by the same rank */

    struct insitu_entry entries[INSITU_ENTRIES];
    struct insitu_round rounds[INSITU_ROUNDS];
    struct insitu_rank rank[INSITU_MEMBERS];
    struct insitu_consumer consumers[INSITU_MEMBERS];
};

#define INSITU_MAGIC UINT64_C(0x32757469736e6f31) /* "1onsitu2" */

struct insitu_table {
    struct shared_header header;
    _Atomic uint32_t lock;  /* futex; id + 1 of the member that creates a channel, 0: unlocked */
    _Atomic uint32_t high;  /* channels[] ever used; only grows */
    _Atomic uint32_t names; /* futex: bumped when a channel can be opened */
    struct insitu_channel channels[ONESPACE_INSITU_CHANNELS];
};

static inline uint64_t channel_kind(uint64_t state)
{
    return state & CHANNEL_KIND_MASK;
}

static inline uint64_t channel_use(uint64_t state)
{
    return state >> CHANNEL_USE_SHIFT << CHANNEL_USE_SHIFT;
}

static inline uint32_t channel_slot(uint64_t state)
{
    return (uint32_t)state >> CHANNEL_SLOT_SHIFT;
}

#define INSITU_AREAS      (LAYOUT_REGION + 14 * LAYOUT_GIB)
#define INSITU_AREA_BYTES ((uint64_t)INSITU_PARTS * INSITU_PART_BYTES)
static_assert(LAYOUT_INSITU + sizeof(struct insitu_table) <= INSITU_AREAS, "below the parts");
static_assert(INSITU_AREAS + ONESPACE_INSITU_CHANNELS * INSITU_AREA_BYTES <= LAYOUT_CALLS,
              "below the donors");

static inline struct insitu_table *insitu_table(void)
{
    return (struct insitu_table *)LAYOUT_INSITU;
}

static inline uintptr_t insitu_area(const struct insitu_channel *channel)
{
    return INSITU_AREAS + (uintptr_t)(channel - insitu_table()->channels) * INSITU_AREA_BYTES;
}

static inline struct insitu_part *insitu_part(const struct insitu_channel *channel, unsigned entry,
                                              unsigned rank)
{
    uintptr_t number = (uintptr_t)entry * channel->ranks + rank;
    return (struct insitu_part *)(insitu_area(channel) + number * INSITU_PART_BYTES);
}

static inline uint64_t insitu_state(enum insitu_entry_kind kind, uint64_t sequence)
{
    return (uint64_t)kind | sequence << 20;
}

static inline uint64_t insitu_reclaimed_by(unsigned rank, uint64_t sequence)
{
    return insitu_state(ENTRY_RECLAIMED, sequence) | (uint64_t)rank << 8;
}
static_assert(ONESPACE_TASKS_MAX < 1 << 12, "a rank has 12 bits");

static inline enum insitu_entry_kind insitu_kind_of(uint64_t state)
{
    return (enum insitu_entry_kind)(state & 0xff);
}

static inline uint64_t insitu_sequence_of(uint64_t state)
{
    return state >> 20;
}

#endif
