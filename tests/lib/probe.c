/* tests/lib/probe.c: see probe.h. The registry's header is C, hence this file. */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#include "space/registry.h"

int probe_slots(void)
{
    struct space *space = space_registry();
    int count = 0;
    for (unsigned i = 1; i < LAYOUT_SLOTS; i++)
        count += slot_state(&space->slots[i]) != SLOT_FREE;
    return count;
}

void probe_describe(char *text, size_t size)
{
    struct space *space = space_registry();
    size_t at = 0;
    *text = 0;
    for (unsigned i = 1; i < LAYOUT_SLOTS && at + 160 < size; i++) {
        struct space_slot *slot = &space->slots[i];
        uint32_t state = atomic_load(&slot->state);
        if ((state & SLOT_STATE_MASK) != SLOT_FREE)
            at += (size_t)snprintf(
                text + at, size - at,
                "slot %u: state %x memory %u pid %d/%d spawner %d orphan %u child %d %s\n", i,
                state, atomic_load(&slot->memory), atomic_load(&slot->pid),
                atomic_load(&space->pids[i]), slot->spawner, atomic_load(&slot->spawner_has_ended),
                atomic_load(&slot->child_result), slot->program);
    }
}

int probe_exports(void)
{
    struct space *space = space_registry();
    int count = 0;
    for (unsigned i = 0; i < SPACE_EXPORTS; i++) {
        uint64_t kind = atomic_load(&space->exports[i].state) & EXPORT_KIND_MASK;
        count += kind == EXPORT_LIVE || kind == EXPORT_CLAIMED;
    }
    return count;
}

void probe_search_steps(int *longest, int *mean)
{
    struct space *space = space_registry();
    int sum = 0;
    *longest = 0;
    for (unsigned i = 0; i < SPACE_EXPORTS; i++) {
        int steps = atomic_load(&space->export_probes[i]);
        *longest = steps > *longest ? steps : *longest;
        sum += steps;
    }
    *mean = sum / SPACE_EXPORTS;
}

int probe_overflows(const char *kind)
{
    struct space_overflows *overflows = &space_registry()->overflows;
    return (int)atomic_load(strcmp(kind, "files") == 0         ? &overflows->files
                            : strcmp(kind, "patch sites") == 0 ? &overflows->patch_sites
                                                               : &overflows->mappings);
}

void probe_fill_files(void)
{
    struct space *space = space_registry();
    for (unsigned i = 0; i < SPACE_FILES; i++) { /* as if their fillers had died */
        uint32_t empty = FILE_EMPTY;
        atomic_compare_exchange_strong(&space->files[i].state, &empty, FILE_FILLING);
    }
}

int probe_holds(void)
{
    struct space *space = space_registry();
    int count = 0;
    unsigned highest = atomic_load(&space->highest);
    for (unsigned owner = 0; owner <= highest; owner++)
        for (unsigned holder = 0; holder <= highest; holder++)
            count += atomic_load(&space->holds[owner][holder]);
    return count;
}

void probe_set_oversubscribed(int oversubscribed)
{
    atomic_store(&space_registry()->oversubscribed, (uint32_t)oversubscribed);
}

void probe_take_turn(int thread)
{
    atomic_store(&space_registry()->map_throttle, (uint32_t)thread);
}

int probe_turn(void)
{
    return (int)atomic_load(&space_registry()->map_throttle);
}

int probe_arrived(void)
{
    return (int)(atomic_load(&space_registry()->barrier) & INT32_MAX);
}

unsigned probe_events(void)
{
    return atomic_load(&space_registry()->events);
}

int probe_registrants(void)
{
    int count = 0;
    for (unsigned i = 0; i < LAYOUT_SLOTS; i++)
        count +=
            atomic_load(&space_registry()->slots[i].registrations.notifier) == NOTIFIER_RUNNING;
    return count;
}

int probe_is_shared(unsigned long address)
{
    return shared_windows_contain(address);
}

int probe_shared(void)
{
    struct space_shared *shared = &space_registry()->shared;
    int count = 0;
    for (int i = 0; i < SPACE_SHARED_MAX; i++) {
        count += atomic_load(&shared->mappings[i].state) != SHARED_FREE;
        for (unsigned word = 0; word < LAYOUT_SLOTS / 64; word++)
            count += atomic_load(&shared->mappings[i].users[word]) != 0;
    }
    return count;
}
