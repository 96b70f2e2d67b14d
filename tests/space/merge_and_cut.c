/* tests/space/merge_and_cut.c: one thread merges entries of a table of intervals while another one
 * cuts them (intervals_test.cpp). The table's header is C, hence this file. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "space/intervals.h"
#include "space/registry.h"

static const enum space_interval_kind KIND = INTERVALS_OUT_OF_RANGE;
static struct space_slot *slot;
static _Atomic unsigned begun, cut; /* rounds */

static uintptr_t page(unsigned number)
{
    return (uintptr_t)(1000 + number) * ARCH_PAGE_MIN;
}

static void *cut_each_round(void *rounds)
{
    for (unsigned round = 1; round <= *(unsigned *)rounds; round++) {
        while (atomic_load(&begun) != round)
            sched_yield();
        for (volatile unsigned i = 0; i < round % 64; i++) {
        }
        intervals_cut(slot, KIND, page(25), page(26), 0);
        atomic_store(&cut, round);
    }
    return NULL;
}

/* Pages 10 to 19 make one entry of 0 to 9 and 20 to 29, of which page 25 is cut meanwhile. */
static int is_right(void)
{
    return !intervals_overlap(slot, KIND, page(25), page(26)) &&
           intervals_contain(slot, KIND, page(0), page(25)) &&
           intervals_contain(slot, KIND, page(26), page(30));
}

/* The number of rounds with a wrong result. */
unsigned merge_and_cut(unsigned rounds);

unsigned merge_and_cut(unsigned rounds)
{
    unsigned wrong = 0;
    pthread_t cutter;
    slot = calloc(1, sizeof(*slot));
    atomic_store(&begun, 0);
    atomic_store(&cut, 0);
    pthread_create(&cutter, NULL, cut_each_round, &rounds);
    for (unsigned round = 1; round <= rounds; round++) {
        intervals_clear(slot);
        intervals_add(slot, KIND, page(0), page(10));
        intervals_add(slot, KIND, page(20), page(30));
        atomic_store(&begun, round);
        intervals_add(slot, KIND, page(10), page(20));
        while (atomic_load(&cut) != round)
            sched_yield();
        wrong += !is_right();
    }
    pthread_join(cutter, NULL);
    free(slot);
    return wrong;
}
