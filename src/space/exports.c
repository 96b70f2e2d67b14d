/* src/space/exports.c: see exports.h.
 *
 * Entries are found by linear probing from a hash of owner and name; removed ones stay DEAD, so
 * that probing goes on behind them, and are used again. Readers take no lock: an entry counts when
 * its state is LIVE before and after it was read. Only the owner's threads add under its name; they
 * exclude one another by the owner's own lock, which dies with all of them. */
#include "space/exports.h"

#include <errno.h>

#include "steer/steer.h"

static uint64_t hash_of(int32_t owner, const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ (uint32_t)owner;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return hash ^ hash >> 29;
}

static int same_name(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static struct space_export *find_entry(struct space *space, int32_t owner, const char *name)
{
    uint64_t hash = hash_of(owner, name);
    for (uint32_t i = 0; i < SPACE_EXPORTS; i++) {
        struct space_export *entry = &space->exports[(hash + i) % SPACE_EXPORTS];
        uint32_t state = atomic_load_explicit(&entry->state, memory_order_acquire);
        if (state == EXPORT_EMPTY)
            return NULL;
        if (state == EXPORT_LIVE && entry->hash == hash && entry->owner == owner &&
            same_name(entry->name, name))
            return entry;
    }
    return NULL;
}

/* Claiming an entry and saying who claimed it is one step, so that exports_drop finds the claims of a
 * task that was killed and nobody else's. */
static uint32_t claim_of(const struct space *space, const struct space_slot *owner)
{
    return EXPORT_CLAIMED | space_slot_index(space, owner) << 8;
}

static struct space_export *claim_entry(struct space *space, uint64_t hash, uint32_t claim)
{
    for (uint32_t i = 0; i < SPACE_EXPORTS; i++) {
        struct space_export *entry = &space->exports[(hash + i) % SPACE_EXPORTS];
        uint32_t state = atomic_load_explicit(&entry->state, memory_order_relaxed);
        while (state == EXPORT_EMPTY || state == EXPORT_DEAD)
            if (atomic_compare_exchange_weak(&entry->state, &state, claim))
                return entry;
    }
    return NULL;
}

static long add_locked(struct space *space, struct space_slot *owner, const char *name,
                       void *address, uint64_t size)
{
    int32_t id = atomic_load(&owner->id);
    if (find_entry(space, id, name))
        return -EEXIST;
    uint64_t hash = hash_of(id, name);
    atomic_store(&owner->has_exported, 1);
    struct space_export *entry = claim_entry(space, hash, claim_of(space, owner));
    if (!entry)
        return -ENOSPC;
    entry->owner = id;
    entry->hash = hash;
    entry->address = (uintptr_t)address;
    entry->size = size;
    for (unsigned i = 0; i < SPACE_EXPORT_NAME; i++)
        if (!(entry->name[i] = name[i]))
            break;
    atomic_store_explicit(&entry->state, EXPORT_LIVE, memory_order_release);
    return 0;
}

long exports_add(struct space *space, struct space_slot *owner, const char *name, void *address,
                 uint64_t size)
{
    uint64_t signals = steer_lock(&owner->steer);
    long result = add_locked(space, owner, name, address, size);
    steer_unlock(&owner->steer, signals);
    return result;
}

long exports_remove(struct space *space, struct space_slot *owner, const char *name)
{
    uint64_t signals = steer_lock(&owner->steer);
    struct space_export *entry = find_entry(space, atomic_load(&owner->id), name);
    if (entry)
        atomic_store_explicit(&entry->state, EXPORT_DEAD, memory_order_release);
    steer_unlock(&owner->steer, signals);
    return entry ? 0 : -ENOENT;
}

long exports_find(struct space *space, int32_t owner, const char *name, void **address,
                  uint64_t *size)
{
    struct space_export *entry = find_entry(space, owner, name);
    if (!entry)
        return -ENOENT;
    uintptr_t found = entry->address;
    uint64_t found_size = entry->size;
    /* The entry may have been given to another name meanwhile; then the name is gone. */
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&entry->state, memory_order_relaxed) != EXPORT_LIVE ||
        entry->owner != owner || !same_name(entry->name, name))
        return -ENOENT;
    *address = (void *)found;
    *size = found_size;
    return 0;
}

void exports_drop(struct space *space, struct space_slot *owner)
{
    if (!atomic_load(&owner->has_exported))
        return;
    int32_t id = atomic_load(&owner->id);
    for (uint32_t i = 0; i < SPACE_EXPORTS; i++) {
        struct space_export *entry = &space->exports[i];
        uint32_t state = atomic_load_explicit(&entry->state, memory_order_acquire);
        if ((state == EXPORT_LIVE && entry->owner == id) || state == claim_of(space, owner))
            atomic_store_explicit(&entry->state, EXPORT_DEAD, memory_order_release);
    }
}
