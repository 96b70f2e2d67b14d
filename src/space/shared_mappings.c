/* src/space/shared_mappings.c: see shared_mappings.h for the protocol. Freestanding: part of it
 * runs in the reaper. */
#include "space/shared_mappings.h"

#include "base/hash.h"
#include "base/page.h"
#include "base/raw.h"
#include "space/registry.h"

struct window_size {
    int first, count; /* entries */
    uintptr_t start;
    size_t size;
};

#define WINDOW_SIZE(name, pages, count)                                                            \
    {SPACE_SHARED_##name, count, SHARED_START + SHARED_AT_##name * 2 * LAYOUT_MIB,                 \
     (uint64_t)(pages)*ARCH_PAGE_MIN},

static const struct window_size window_sizes[SPACE_SHARED_SIZES] = {SHARED_WINDOWS(WINDOW_SIZE)};

static_assert(512 * ARCH_PAGE_MIN == 2 * LAYOUT_MIB, "as SHARED_WINDOWS has it");

static struct space_shared_mapping *entry_of(struct space *space, int index)
{
    return &space->shared.mappings[index];
}

static const struct window_size *size_of(int index)
{
    const struct window_size *size = window_sizes;
    while (index >= size->first + size->count)
        size++;
    return size;
}

uintptr_t shared_window_start(int index)
{
    const struct window_size *size = size_of(index);
    return size->start + (size_t)(index - size->first) * size->size;
}

uintptr_t shared_window_end(int index)
{
    return shared_window_start(index) + size_of(index)->size;
}

int shared_window_index(uintptr_t address)
{
    const struct window_size *size = window_sizes;
    while (address >= size->start + (size_t)size->count * size->size)
        size++;
    return size->first + (int)((address - size->start) / size->size);
}

int shared_window_class(int size, int *first)
{
    *first = window_sizes[size].first;
    return window_sizes[size].count;
}

/* The smallest class of windows for mappings of that size, or SPACE_SHARED_SIZES. A page after
 * each mapping stays free, because programs do not expect that another mapping follows directly.
 * With pages larger than 4 KiB only the larger windows begin at a page. */
static int smallest_class(size_t size)
{
    int s = 0;
    while (s < SPACE_SHARED_SIZES &&
           (window_sizes[s].size % ARCH_PAGE || size > window_sizes[s].size - ARCH_PAGE))
        s++;
    return s;
}

/* The end of the entries of that class that were ever used. */
static int end_of(const struct space *space, int size)
{
    return window_sizes[size].first + (int)atomic_load(&space->shared.reach[size]);
}

static uint64_t hash_of(const struct space_shared_key *key)
{
    return hash_bytes(HASH_SEED, key, sizeof(*key)) | 1; /* 0 means no key */
}

static int is_same(const struct space_shared_key *a, const struct space_shared_key *b)
{
    return a->device == b->device && a->inode == b->inode && a->offset == b->offset &&
           a->size == b->size && a->prot == b->prot && a->may_write == b->may_write;
}

static _Atomic uint64_t *word_of(struct space_shared_mapping *entry, unsigned slot)
{
    return &entry->users[slot / 64];
}

static uint64_t bit_of(unsigned slot)
{
    return UINT64_C(1) << slot % 64;
}

static unsigned count_users(const struct space_shared_mapping *entry)
{
    unsigned count = 0;
    for (unsigned i = 0; i < LAYOUT_SLOTS / 64; i++)
        for (uint64_t word = atomic_load(&entry->users[i]); word; word &= word - 1)
            count++;
    return count;
}

static uint32_t state_by(enum shared_state state, unsigned slot)
{
    return (uint32_t)state | slot << SHARED_STATE_BITS;
}

/* Unmaps the whole window: in an exclusive entry, its task may have mapped anything there. */
static void unmap_window(struct space *space, int index)
{
    struct space_shared_mapping *entry = entry_of(space, index);
    atomic_store(&space->shared.hashes[index], 0);
    long result = raw(__NR_munmap, shared_window_start(index), size_of(index)->size);
    atomic_store(&entry->state, result == 0 ? SHARED_FREE : SHARED_STUCK);
}

static void unmap_if_unused(struct space *space, int index, unsigned slot)
{
    struct space_shared_mapping *entry = entry_of(space, index);
    while (count_users(entry) == 0) {
        uint32_t live = SHARED_LIVE;
        if (!atomic_compare_exchange_strong(&entry->state, &live, state_by(SHARED_UNMAPPING, slot)))
            return; /* another task unmaps it, or there is nothing to unmap */
        if (count_users(entry) == 0) {
            unmap_window(space, index);
            return;
        }
        atomic_store(&entry->state, SHARED_LIVE);
    }
}

static void clear_user(struct space *space, unsigned slot, int index)
{
    atomic_fetch_and(word_of(entry_of(space, index), slot), ~bit_of(slot));
    unmap_if_unused(space, index, slot);
}

static int try_join(struct space *space, unsigned slot, int index,
                    const struct space_shared_key *key)
{
    struct space_shared_mapping *entry = entry_of(space, index);
    if (atomic_fetch_or(word_of(entry, slot), bit_of(slot)) & bit_of(slot))
        return 0;
    if (atomic_load(&entry->state) == SHARED_LIVE && is_same(&entry->key, key))
        return 1;
    clear_user(space, slot, index);
    return 0;
}

/* The first entry from `from` on with that key's hash, or -1. */
static int next_with_hash(const struct space *space, const struct space_shared_key *key, int from)
{
    uint64_t hash = hash_of(key);
    for (int s = smallest_class(key->size); s < SPACE_SHARED_SIZES; s++) {
        int i = from > window_sizes[s].first ? from : window_sizes[s].first;
        for (int end = end_of(space, s); i < end; i++)
            if (atomic_load_explicit(&space->shared.hashes[i], memory_order_acquire) == hash)
                return i;
    }
    return -1;
}

static int join_below(struct space *space, unsigned slot, int end,
                      const struct space_shared_key *key)
{
    for (int i = next_with_hash(space, key, 0); i >= 0 && i < end;
         i = next_with_hash(space, key, i + 1))
        if (try_join(space, slot, i, key))
            return i;
    return -1;
}

/* Called before the task's first bit or entry: the reaper searches for these only if it is set. */
static void set_has_shared(struct space_slot *self)
{
    if (!atomic_load(&self->has_shared))
        atomic_store(&self->has_shared, 1);
}

uintptr_t shared_mapping_join(struct space *space, struct space_slot *self,
                              const struct space_shared_key *key)
{
    set_has_shared(self);
    int index = join_below(space, slot_index(space, self), SPACE_SHARED_MAX, key);
    return index < 0 ? 0 : shared_window_start(index);
}

/* Raises the reach before the claim, because the reaper searches a dead task's claims below it. */
static int try_claim(struct space *space, unsigned slot, int size, int number)
{
    int index = window_sizes[size].first + number;
    _Atomic uint32_t *state = &entry_of(space, index)->state;
    uint32_t unused = SHARED_FREE;
    if (atomic_load_explicit(&space->shared.hashes[index], memory_order_relaxed) ||
        atomic_load_explicit(state, memory_order_relaxed) != SHARED_FREE)
        return -1;
    word_raise(&space->shared.reach[size], (uint32_t)number + 1);
    return atomic_compare_exchange_strong(state, &unused, state_by(SHARED_FILLING, slot)) ? index
                                                                                          : -1;
}

int shared_mapping_claim(struct space *space, struct space_slot *self, int index)
{
    struct space_shared_mapping *entry = entry_of(space, index);
    const struct window_size *size = size_of(index);
    unsigned slot = slot_index(space, self);
    set_has_shared(self);
    if (try_claim(space, slot, (int)(size - window_sizes), index - size->first) < 0)
        return 0;
    entry->key = (struct space_shared_key){0};
    atomic_fetch_or(word_of(entry, slot), bit_of(slot));
    atomic_store(&entry->state, state_by(SHARED_EXCLUSIVE, slot));
    return 1;
}

static int claim_entry(struct space *space, unsigned slot, size_t size)
{
    int index = -1;
    for (int s = smallest_class(size); index < 0 && s < SPACE_SHARED_SIZES; s++)
        for (int i = 0; index < 0 && i < window_sizes[s].count; i++)
            index = try_claim(space, slot, s, i);
    return index;
}

static int count_duplicates(const struct space *space, const struct space_slot *self,
                            const struct space_shared_key *key)
{
    int count = 0;
    for (int i = next_with_hash(space, key, 0); i >= 0; i = next_with_hash(space, key, i + 1))
        count += shared_mapping_has_user(space, self, i);
    return count;
}

int shared_mapping_create(struct space *space, struct space_slot *self,
                          const struct space_shared_key *key, uintptr_t *start)
{
    set_has_shared(self);
    if (count_duplicates(space, self, key) >= SHARED_MAX_DUPLICATES)
        return -1;
    int index = claim_entry(space, slot_index(space, self), key->size);
    if (index < 0)
        return -1;
    entry_of(space, index)->key = *key;
    *start = shared_window_start(index);
    return index;
}

void shared_mapping_cancel(struct space *space, int index)
{
    atomic_store(&entry_of(space, index)->state, SHARED_FREE);
}

uintptr_t shared_mapping_publish(struct space *space, struct space_slot *self, int index)
{
    struct space_shared_mapping *entry = entry_of(space, index);
    struct space_shared_key key = entry->key;
    unsigned slot = slot_index(space, self);
    atomic_fetch_or(word_of(entry, slot), bit_of(slot));
    atomic_store(&space->shared.hashes[index], hash_of(&key));
    atomic_store(&entry->state, SHARED_LIVE);
    /* If two tasks publish the same key at the same time, at least the later one sees the other's
     * entry. If both see one another, the entry with the lower index stays. */
    int other = join_below(space, slot, index, &key);
    if (other < 0)
        return shared_window_start(index);
    clear_user(space, slot, index);
    return shared_window_start(other);
}

int shared_mapping_has_user(const struct space *space, const struct space_slot *slot, int index)
{
    unsigned number = slot_index(space, slot);
    return (atomic_load(&space->shared.mappings[index].users[number / 64]) & bit_of(number)) != 0;
}

unsigned extra_attachments(const struct space *space, const struct space_shared_key *key)
{
    unsigned extra = 0;
    for (int i = next_with_hash(space, key, 0); i >= 0; i = next_with_hash(space, key, i + 1)) {
        unsigned users = count_users(&space->shared.mappings[i]);
        extra += users ? users - 1 : 0;
    }
    return extra;
}

int shared_mapping_is_exclusive(const struct space *space, int index)
{
    uint32_t state = atomic_load(&space->shared.mappings[index].state);
    return (state & ((1u << SHARED_STATE_BITS) - 1)) == SHARED_EXCLUSIVE;
}

int shared_mapping_make_exclusive(struct space *space, struct space_slot *self, int index)
{
    struct space_shared_mapping *entry = entry_of(space, index);
    unsigned slot = slot_index(space, self);
    uint32_t live = SHARED_LIVE, exclusive = state_by(SHARED_EXCLUSIVE, slot);
    if (atomic_load(&entry->state) == exclusive)
        return 1;
    if (count_users(entry) != 1 ||
        !atomic_compare_exchange_strong(&entry->state, &live, state_by(SHARED_UNMAPPING, slot)))
        return 0;
    if (count_users(entry) != 1) {
        atomic_store(&entry->state, SHARED_LIVE);
        return 0;
    }
    atomic_store(&space->shared.hashes[index], 0);
    atomic_store(&entry->state, exclusive);
    return 1;
}

void shared_mapping_release(struct space *space, struct space_slot *self, int index)
{
    struct space_shared_mapping *entry = entry_of(space, index);
    unsigned slot = slot_index(space, self);
    uint32_t exclusive = state_by(SHARED_EXCLUSIVE, slot);
    if (!atomic_compare_exchange_strong(&entry->state, &exclusive,
                                        state_by(SHARED_UNMAPPING, slot))) {
        clear_user(space, slot, index);
        return;
    }
    atomic_fetch_and(word_of(entry, slot), ~bit_of(slot));
    unmap_window(space, index);
}

/* Completes or undoes what the dead task was doing with an entry, except unmapping an unused one.
 */
static void complete_for_dead(struct space *space, unsigned slot, int index)
{
    struct space_shared_mapping *entry = entry_of(space, index);
    uint32_t state = atomic_load(&entry->state);
    if (state == state_by(SHARED_UNMAPPING, slot) && atomic_load(&space->shared.hashes[index])) {
        atomic_store(&entry->state, SHARED_LIVE); /* nothing was unmapped yet */
    } else if (state == state_by(SHARED_FILLING, slot) ||
               state == state_by(SHARED_EXCLUSIVE, slot) ||
               state == state_by(SHARED_UNMAPPING, slot)) {
        atomic_fetch_and(word_of(entry, slot), ~bit_of(slot));
        unmap_window(space, index);
    }
}

void shared_mappings_release_all(struct space *space, struct space_slot *slot)
{
    if (!atomic_load(&slot->has_shared))
        return;
    unsigned number = slot_index(space, slot);
    for (int s = 0; s < SPACE_SHARED_SIZES; s++)
        for (int i = window_sizes[s].first, end = end_of(space, s); i < end; i++) {
            complete_for_dead(space, number, i);
            if (shared_mapping_has_user(space, slot, i))
                atomic_fetch_and(word_of(entry_of(space, i), number), ~bit_of(number));
            unmap_if_unused(space, i,
                            number); /* the task may have died between clearing its bit and this */
        }
}
