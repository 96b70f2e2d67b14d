/* src/interpose/memory/area.c: see area.h. */
#include "interpose/memory/area.h"

#include "base/page.h"

uintptr_t area_take(const struct area *area, size_t size, size_t align)
{
    uint64_t next = atomic_load_explicit(area->next, memory_order_relaxed), place;
    do {
        place = round_up(next, align);
        if (place < area->start || place >= area->end || size > area->end - place) {
            place = round_up(area->start, align);
            if (place >= area->end || size > area->end - place)
                return 0;
        }
    } while (!atomic_compare_exchange_weak_explicit(area->next, &next, place + size,
                                                    memory_order_relaxed, memory_order_relaxed));
    return place;
}

void area_give_back(const struct area *area, uintptr_t address, size_t size)
{
    uint64_t end = address + size;
    if (address >= area->start && end <= area->end)
        atomic_compare_exchange_strong_explicit(area->next, &end, address, memory_order_relaxed,
                                                memory_order_relaxed);
}
