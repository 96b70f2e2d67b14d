/* src/xpmem/entries.c: see entries.h. */
#include "xpmem/entries.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/raw.h"

/* `id` has one writer at a time: the thread that allocated the entry, until it frees it. The writer
 * stores it with release after the content; readers load it with acquire before the content. So a
 * reader sees the content of this id or of a later one. In the latter case its second load of `id`
 * sees the 0 that was stored in between (fences in entry_add, clear_entries and entry_read). */
struct entry {
    _Atomic uint64_t id;   /* 0: not in use */
    _Atomic uint32_t next; /* in the list of free entries: index + 1 of the next */
    _Atomic uint16_t uses; /* number of allocations */
    _Atomic uint16_t mode;
    _Atomic uint64_t first;
    _Atomic uint64_t size_or_owner;
};

enum {
    MAP_STEP = 2048, /* entries that one mmap adds */
    TABLE_BYTES = ENTRY_COUNT * sizeof(struct entry),
};

static_assert(sizeof(struct entry) == 32, "a power of two, two to a cache line");
static_assert(LAYOUT_XPMEM + LAYOUT_SLOTS * 2ul * TABLE_BYTES <= LAYOUT_REGION + LAYOUT_RANGE,
              "in the range of slot 0");

static struct entry *entries_of(struct space *space, const struct space_slot *slot,
                                enum entry_kind kind)
{
    uintptr_t tables = LAYOUT_XPMEM + slot_index(space, slot) * 2ul * TABLE_BYTES;
    return (struct entry *)(tables + (kind == ENTRY_PERMIT ? TABLE_BYTES : 0));
}

uint32_t entry_pid(struct space *space, const struct space_slot *slot)
{
    return (uint32_t)atomic_load_explicit(&space->pids[slot_index(space, slot)],
                                          memory_order_relaxed);
}

static uint32_t index_of(int64_t id)
{
    return (uint32_t)(id >> 32) % ENTRY_COUNT;
}

struct space_slot *entry_process(struct space *space, int64_t id)
{
    uint32_t pid = (uint32_t)id;
    if (pid == 0 || pid >= SPACE_PIDS)
        return NULL;
    uint32_t index = atomic_load_explicit(&space->xpmem_slots[pid], memory_order_relaxed);
    return atomic_load_explicit(&space->pids[index], memory_order_acquire) == (int32_t)pid
               ? &space->slots[index]
               : NULL;
}

/* Maps the entries [from, from + MAP_STEP). Threads may race: all but the first get EEXIST. */
static int map_entries(struct space_xpmem_table *table, struct entry *entries, uint32_t from)
{
    long result =
        raw(__NR_mmap, entries + from, MAP_STEP * sizeof(struct entry), PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (raw_failed(result) && result != -EEXIST)
        return -ENOMEM;
    /* Release, pairs with the acquire loads of `mapped`: below it the memory can be read. */
    atomic_compare_exchange_strong_explicit(&table->mapped, &from, from + MAP_STEP,
                                            memory_order_release, memory_order_relaxed);
    return 0;
}

/* Pops an entry from the list of free entries. The head contains a count of changes, so that the
 * compare-and-swap fails if the list has changed since the head was read (ABA). */
static struct entry *pop_free(struct space_xpmem_table *table, struct entry *entries)
{
    uint64_t head = atomic_load_explicit(&table->free, memory_order_acquire), next;
    do {
        if ((uint32_t)head == 0)
            return NULL;
        uint32_t after =
            atomic_load_explicit(&entries[(uint32_t)head - 1].next, memory_order_relaxed);
        next = ((head >> 32) + 1) << 32 | after;
    } while (!atomic_compare_exchange_weak_explicit(&table->free, &head, next, memory_order_acquire,
                                                    memory_order_acquire));
    return &entries[(uint32_t)head - 1];
}

static void push_free(struct space_xpmem_table *table, struct entry *entries, struct entry *entry)
{
    uint32_t number = (uint32_t)(entry - entries) + 1;
    uint64_t head = atomic_load_explicit(&table->free, memory_order_relaxed), next;
    do {
        atomic_store_explicit(&entry->next, (uint32_t)head, memory_order_relaxed);
        next = ((head >> 32) + 1) << 32 | number;
    } while (!atomic_compare_exchange_weak_explicit(&table->free, &head, next, memory_order_release,
                                                    memory_order_relaxed));
}

/* Allocates an entry that was never used. */
static struct entry *allocate_unused(struct space_xpmem_table *table, struct entry *entries)
{
    uint32_t used = atomic_load_explicit(&table->used, memory_order_relaxed);
    do {
        if (used == ENTRY_COUNT)
            return NULL;
        uint32_t mapped = atomic_load_explicit(&table->mapped, memory_order_acquire);
        if (used >= mapped && map_entries(table, entries, mapped) != 0)
            return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&table->used, &used, used + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return &entries[used];
}

int64_t entry_add(struct space *space, struct space_slot *self, enum entry_kind kind,
                  const struct entry_content *content)
{
    struct space_xpmem_table *table = &self->xpmem.tables[kind];
    struct entry *entries = entries_of(space, self, kind), *entry = pop_free(table, entries);
    if (!entry)
        entry = allocate_unused(table, entries);
    if (!entry)
        return -ENOMEM;
    uint16_t uses = (uint16_t)(atomic_load_explicit(&entry->uses, memory_order_relaxed) + 1);
    uint64_t other = kind == ENTRY_SEGMENT ? content->size : content->owner;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&entry->uses, uses, memory_order_relaxed);
    atomic_store_explicit(&entry->mode, (uint16_t)content->mode, memory_order_relaxed);
    atomic_store_explicit(&entry->first, content->first, memory_order_relaxed);
    atomic_store_explicit(&entry->size_or_owner, other, memory_order_relaxed);
    uint64_t number = (uint64_t)uses << 16 | (uint64_t)(entry - entries);
    uint64_t id = number << 32 | entry_pid(space, self);
    atomic_store_explicit(&entry->id, id, memory_order_release);
    return (int64_t)id;
}

static struct entry *find(struct space *space, const struct space_slot *slot, enum entry_kind kind,
                          int64_t id)
{
    uint32_t index = index_of(id);
    if (index >= atomic_load_explicit(&slot->xpmem.tables[kind].mapped, memory_order_acquire))
        return NULL;
    struct entry *entry = entries_of(space, slot, kind) + index;
    return atomic_load_explicit(&entry->id, memory_order_acquire) == (uint64_t)id ? entry : NULL;
}

long entry_read(struct space *space, const struct space_slot *slot, enum entry_kind kind,
                int64_t id, struct entry_content *content)
{
    struct entry *entry = find(space, slot, kind, id);
    if (!entry)
        return -ENOENT;
    content->mode = atomic_load_explicit(&entry->mode, memory_order_relaxed);
    content->first = atomic_load_explicit(&entry->first, memory_order_relaxed);
    content->size = atomic_load_explicit(&entry->size_or_owner, memory_order_relaxed);
    content->owner = (uint32_t)content->size;
    /* Orders the reads of the content before the second read of the id, which validates them. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&entry->id, memory_order_relaxed) == (uint64_t)id ? 0 : -ENOENT;
}

long entry_remove(struct space *space, struct space_slot *self, enum entry_kind kind, int64_t id)
{
    struct entry *entry = find(space, self, kind, id);
    uint64_t expected = (uint64_t)id;
    /* If several threads remove it, one succeeds. */
    if (!entry || !atomic_compare_exchange_strong_explicit(
                      &entry->id, &expected, 0, memory_order_acq_rel, memory_order_relaxed))
        return -ENOENT;
    if (atomic_load_explicit(&entry->uses, memory_order_relaxed) < ENTRY_USES)
        push_free(&self->xpmem.tables[kind], entries_of(space, self, kind), entry);
    return 0;
}

/* Where pages are locked, as all are after an mlockall of any member, MADV_DONTNEED fails. */
static void clear_entries(struct entry *entries, uint32_t count)
{
    size_t size = count * sizeof(struct entry);
    if (size == 0 || raw(__NR_madvise, entries, size, MADV_DONTNEED) == 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        atomic_store_explicit(&entries[i].id, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (uint64_t *word = (uint64_t *)entries; size; size -= sizeof(*word))
        *(volatile uint64_t *)word++ = 0;
}

void entry_drop_all(struct space *space, struct space_slot *slot)
{
    for (enum entry_kind kind = ENTRY_SEGMENT; kind <= ENTRY_PERMIT; kind++) {
        struct space_xpmem_table *table = &slot->xpmem.tables[kind];
        uint32_t used = atomic_load_explicit(&table->used, memory_order_relaxed);
        clear_entries(entries_of(space, slot, kind), used);
        atomic_store_explicit(&table->free, 0, memory_order_relaxed);
        atomic_store_explicit(&table->used, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&slot->xpmem.known, 0, memory_order_release);
}
