/* tests/fuzz/channels_fuzz.c: any bytes in the table of channels that `onespace ps` and `onespace
 * insitu` read from the memory of a space.
 *
 * Beyond not crashing: names end, counts that other code uses as indices are in bounds, and what is
 * printed has no control characters. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/ps/ps.h"
#include "false_memory.h"

#define CHANNEL(i)                                                                                 \
    {                                                                                              \
        LAYOUT_INSITU + offsetof(struct insitu_table, channels) +                                  \
            (i) * sizeof(struct insitu_channel),                                                   \
            sizeof(struct insitu_channel)                                                          \
    }

static const struct false_part parts[] = {{LAYOUT_INSITU, offsetof(struct insitu_table, channels)},
                                          CHANNEL(0),
                                          CHANNEL(1),
                                          CHANNEL(ONESPACE_INSITU_CHANNELS - 1)};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

static void show(const struct insitu_channel *channels, unsigned count, int as_json)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct output_json json = {.out = out};
    require(out != NULL, "memory");
    if (as_json)
        channels_json(&json, channels, count);
    else
        channels_print(out, channels, count);
    fclose(out);
    require_no_control(text, size);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t live = CHANNEL_LIVE;
    const uint32_t high = size ? data[0] % 4 : 0;
    struct ps_member member = false_memory_member();
    struct insitu_channel *channels;
    if (size == 0)
        return 0;
    false_memory_clear(parts, PARTS);
    false_memory_write(LAYOUT_INSITU + offsetof(struct insitu_table, high), &high, sizeof(high));
    for (unsigned i = 1; i < PARTS; i++)
        false_memory_write(parts[i].at + offsetof(struct insitu_channel, state), &live,
                           sizeof(live));
    false_parts_change(parts, PARTS, data + 1, size - 1, false_memory_write);
    int count = channels_read(member.pid, &channels);
    require(count <= ONESPACE_INSITU_CHANNELS, "a count of channels");
    for (int i = 0; i < count; i++) {
        require(memchr(channels[i].name, 0, INSITU_NAME) != NULL, "a name that ends");
        require(channels[i].ranks <= INSITU_MEMBERS, "ranks");
        require(atomic_load(&channels[i].consumers_high) <= INSITU_MEMBERS, "consumers");
    }
    if (count >= 0) {
        show(channels, (unsigned)count, 0);
        show(channels, (unsigned)count, 1);
    }
    free(channels);
    return 0;
}
