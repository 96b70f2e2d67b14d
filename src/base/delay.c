/* src/base/delay.c: see delay.h. Only in builds with ONESPACE_DELAYS. Freestanding, apart from the
 * constructor, which runs when the program that loads this copy of the library begins. */
#include "base/delay.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "base/text.h"
#include "base/raw.h"

enum { DELAYS_MAX = 8, NAME_MAX_BYTES = 32, ONE_IN = 4 };

/* Written by the constructor or onespace_delay, before there are threads that read it. */
static struct {
    char point[NAME_MAX_BYTES];
    uint64_t us;
} delays[DELAYS_MAX];
static _Atomic uint32_t sequence; /* of pseudo-random numbers; any thread */

/* Replaces the delays of the calling program. Exported for tests whose own process is the root. */
__attribute__((visibility("default"))) void onespace_delay(const char *list);

void onespace_delay(const char *list)
{
    for (unsigned i = 0; i < DELAYS_MAX; i++) {
        char *to = delays[i].point, *end = to + NAME_MAX_BYTES - 1;
        while (list && *list && *list != ':' && *list != ',' && to < end)
            *to++ = *list++;
        *to = 0;
        delays[i].us = 0;
        if (list && *list == ':')
            list = text_read_number(list + 1, &delays[i].us);
        if (list && *list == ',')
            list++;
    }
}

static __attribute__((constructor)) void read_environment(void)
{
    onespace_delay(getenv("ONESPACE_DELAY"));
}

static uint32_t random_number(void)
{
    uint32_t number = atomic_fetch_add_explicit(&sequence, 1, memory_order_relaxed) * 2654435769u;
    number ^= (uint32_t)raw(__NR_gettid) * 2246822519u;
    number ^= number >> 15;
    return number * 2654435769u >> 8;
}

void delay_at(const char *point)
{
    for (unsigned i = 0; i < DELAYS_MAX && delays[i].us; i++) {
        uint64_t us = delays[i].us;
        if (text_equal(delays[i].point, "random"))
            us = random_number() % ONE_IN ? 0 : random_number() % us;
        else if (!text_equal(delays[i].point, point))
            continue;
        struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
        if (us)
            raw(__NR_nanosleep, &time, NULL);
    }
}
