/* src/space/exports.c: exported names.
 *
 * Open addressing with double hashing: owner and name give a first entry and a stride, and a name
 * takes the first free entry of that sequence. There are no tombstones: an entry is free as soon as
 * its name is removed, so a search does not end at a free entry but after export_probes[first
 * entry] steps. That is raised before a name becomes visible and never lowered: too large a value
 * costs only time, and the strides keep searches short on average even when the table has been
 * full.
 *
 * Readers take no lock. What was read of an entry is valid if its state was LIVE before and is
 * unchanged after; each use of an entry has a number of its own in the state. Only the owner's
 * threads add and remove its names; they exclude one another by the member's lock (locks.h), which
 * dies with them. */
#include "space/member.h"

#include <errno.h>

#include "base/hash.h"
#include "space/locks.h"

struct probe {
    uint64_t hash;
    uint32_t stride; /* odd, so that it leads to every entry */
};

struct value {
    uintptr_t address;
    uint64_t size;
};

static struct probe probe_of(int32_t owner, const char *name)
{
    uint64_t hash = hash_text(HASH_SEED ^ (uint32_t)owner, name);
    hash ^= hash >> 29;
    return (struct probe){hash, (uint32_t)(hash >> 40) | 1};
}

static uint32_t entry_at(const struct probe *probe, uint32_t step)
{
    return ((uint32_t)probe->hash + step * probe->stride) % SPACE_EXPORTS;
}

static uint64_t kind_of(uint64_t state)
{
    return state & EXPORT_KIND_MASK;
}

/* The next state of an entry. One store both claims an entry and names the claimer, so that
 * exports_remove_all finds exactly the claims of a task that was killed. */
static uint64_t state_of(enum export_state kind, unsigned slot, uint64_t use)
{
    return (uint64_t)kind | (uint64_t)slot << EXPORT_SLOT_SHIFT | use << EXPORT_USE_SHIFT;
}

static int same_name(const _Atomic char *stored, const char *name)
{
    for (unsigned i = 0; i < SPACE_EXPORT_NAME; i++) {
        char byte = atomic_load_explicit(&stored[i], memory_order_relaxed);
        if (byte != name[i])
            return 0;
        if (!byte)
            return 1;
    }
    return 0;
}

/* Whether the entry holds the name; then *value is its value. */
static int read_entry(const struct space_export *entry, int32_t owner, const struct probe *probe,
                      const char *name, struct value *value)
{
    /* Acquire: pairs with the release of LIVE, so the fields are at least that name's. */
    uint64_t state = atomic_load_explicit(&entry->state, memory_order_acquire);
    if (kind_of(state) != EXPORT_LIVE ||
        atomic_load_explicit(&entry->hash, memory_order_relaxed) != (uint32_t)probe->hash ||
        atomic_load_explicit(&entry->owner, memory_order_relaxed) != owner ||
        !same_name(entry->name, name))
        return 0;
    value->address = atomic_load_explicit(&entry->address, memory_order_relaxed);
    value->size = atomic_load_explicit(&entry->size, memory_order_relaxed);
    /* Pairs with the fence in fill_entry: if a field read above was a later name's, the load below
     * sees that name's claim. Then this name was removed meanwhile, and "not found" is correct. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&entry->state, memory_order_relaxed) == state;
}

static struct space_export *find_entry(struct space *space, int32_t owner, const char *name,
                                       struct value *value)
{
    struct probe probe = probe_of(owner, name);
    /* Relaxed: a caller who knows of the name through other memory sees its number of probes, too,
     * since it was raised before the name was LIVE. */
    uint32_t probes =
        atomic_load_explicit(&space->export_probes[entry_at(&probe, 0)], memory_order_relaxed);
    for (uint32_t step = 0; step < probes; step++) {
        struct space_export *entry = &space->exports[entry_at(&probe, step)];
        if (read_entry(entry, owner, &probe, name, value))
            return entry;
    }
    return NULL;
}

static void raise_probes(_Atomic uint16_t *probes, uint32_t steps)
{
    uint16_t seen = atomic_load_explicit(probes, memory_order_relaxed);
    while (seen < steps &&
           !atomic_compare_exchange_weak_explicit(probes, &seen, (uint16_t)steps,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

static struct space_export *claim_entry(struct space *space, const struct probe *probe,
                                        unsigned slot)
{
    for (uint32_t step = 0; step < SPACE_EXPORTS; step++) {
        struct space_export *entry = &space->exports[entry_at(probe, step)];
        uint64_t state = atomic_load_explicit(&entry->state, memory_order_relaxed);
        while (kind_of(state) == EXPORT_FREE) {
            uint64_t claimed = state_of(EXPORT_CLAIMED, slot, (state >> EXPORT_USE_SHIFT) + 1);
            if (atomic_compare_exchange_weak(&entry->state, &state, claimed)) {
                raise_probes(&space->export_probes[entry_at(probe, 0)], step + 1);
                return entry;
            }
        }
    }
    return NULL;
}

static void set_kind(struct space_export *entry, enum export_state kind)
{
    uint64_t state = atomic_load_explicit(&entry->state, memory_order_relaxed);
    uint64_t next = (state & ~(uint64_t)EXPORT_KIND_MASK) | kind;
    /* Release: LIVE after the fields, for read_entry. */
    atomic_store_explicit(&entry->state, next, memory_order_release);
}

static void fill_entry(struct space_export *entry, int32_t owner, const struct probe *probe,
                       const char *name, const struct value *value)
{
    /* Pairs with the fence in read_entry: the claim is seen before the fields are. */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&entry->owner, owner, memory_order_relaxed);
    atomic_store_explicit(&entry->hash, (uint32_t)probe->hash, memory_order_relaxed);
    atomic_store_explicit(&entry->address, value->address, memory_order_relaxed);
    atomic_store_explicit(&entry->size, value->size, memory_order_relaxed);
    for (unsigned i = 0; i < SPACE_EXPORT_NAME; i++) {
        atomic_store_explicit(&entry->name[i], name[i], memory_order_relaxed);
        if (!name[i])
            break;
    }
    set_kind(entry, EXPORT_LIVE);
}

static long add_locked(struct space *space, struct space_slot *owner, const char *name,
                       const struct value *value)
{
    int32_t id = atomic_load(&owner->id);
    struct probe probe = probe_of(id, name);
    struct value old;
    if (find_entry(space, id, name, &old))
        return -EEXIST;
    atomic_store(&owner->has_exported, 1);
    struct space_export *entry = claim_entry(space, &probe, slot_index(space, owner));
    if (!entry)
        return -ENOSPC;
    fill_entry(entry, id, &probe, name, value);
    return 0;
}

long exports_add(struct space *space, struct space_slot *owner, const char *name, void *address,
                 uint64_t size)
{
    struct value value = {(uintptr_t)address, size};
    uint64_t signals = member_lock(owner);
    long result = add_locked(space, owner, name, &value);
    member_unlock(owner, signals);
    return result;
}

long exports_remove(struct space *space, struct space_slot *owner, const char *name)
{
    struct value value;
    uint64_t signals = member_lock(owner);
    struct space_export *entry = find_entry(space, atomic_load(&owner->id), name, &value);
    if (entry)
        set_kind(entry, EXPORT_FREE);
    member_unlock(owner, signals);
    return entry ? 0 : -ENOENT;
}

long exports_find(struct space *space, int32_t owner, const char *name, void **address,
                  uint64_t *size)
{
    struct value value;
    if (!find_entry(space, owner, name, &value))
        return -ENOENT;
    *address = (void *)value.address;
    *size = value.size;
    return 0;
}

void exports_remove_all(struct space *space, struct space_slot *owner)
{
    if (!atomic_load(&owner->has_exported))
        return;
    unsigned slot = slot_index(space, owner);
    for (uint32_t i = 0; i < SPACE_EXPORTS; i++) {
        struct space_export *entry = &space->exports[i];
        /* Acquire: the dead task's last stores to this entry come before ours. */
        uint64_t state = atomic_load_explicit(&entry->state, memory_order_acquire);
        if (kind_of(state) != EXPORT_FREE && (uint32_t)state >> EXPORT_SLOT_SHIFT == slot)
            set_kind(entry, EXPORT_FREE);
    }
}
