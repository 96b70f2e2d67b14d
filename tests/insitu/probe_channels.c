/* tests/insitu/probe_channels.c: see probe_channels.h. The tables' header is C, hence this file. */
#include "probe_channels.h"

#include <sys/mman.h>

#include "insitu/channel.h"

static int is_there(void)
{
    return atomic_load(&space_registry()->insitu) != 0;
}

int probe_channels(void)
{
    int count = 0;
    for (int i = 0; is_there() && i < ONESPACE_INSITU_CHANNELS; i++)
        count +=
            (atomic_load(&insitu_table()->channels[i].state) & CHANNEL_KIND_MASK) != CHANNEL_FREE;
    return count;
}

int probe_consumers(void)
{
    int count = 0;
    for (int i = 0; is_there() && i < ONESPACE_INSITU_CHANNELS; i++)
        for (int c = 0; c < INSITU_MEMBERS; c++) {
            const struct insitu_consumer *place = &insitu_table()->channels[i].consumers[c];
            count += place->owner || place->active || place->holding || place->seen;
        }
    return count;
}

int probe_areas(void)
{
    int count = 0;
    unsigned char present;
    for (int i = 0; is_there() && i < ONESPACE_INSITU_CHANNELS; i++)
        count += mincore((void *)insitu_area(&insitu_table()->channels[i]), 4096, &present) == 0;
    return count;
}

void *probe_area(void)
{
    unsigned char present;
    for (int i = 0; is_there() && i < ONESPACE_INSITU_CHANNELS; i++) {
        void *area = (void *)insitu_area(&insitu_table()->channels[i]);
        if (mincore(area, 4096, &present) == 0)
            return area;
    }
    return NULL;
}
