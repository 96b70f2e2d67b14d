/* cmd/ps/channels.c: the channels of a space. The copied memory may contain anything: it is checked
 * before it is used as an index or a text. */
#include "cmd/ps/ps.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static uint32_t load32(const _Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* Bounds the counts that are used as indices below. */
static void make_sane(struct insitu_channel *channel)
{
    channel->name[INSITU_NAME - 1] = 0;
    output_clean(channel->name);
    if (channel->ranks > INSITU_MEMBERS)
        channel->ranks = INSITU_MEMBERS;
    if (load32(&channel->consumers_high) > INSITU_MEMBERS)
        atomic_store(&channel->consumers_high, INSITU_MEMBERS);
}

int channels_read(int pid, struct insitu_channel **channels)
{
    uint32_t high, count = 0;
    *channels = NULL;
    if (ps_copy(pid, LAYOUT_INSITU + offsetof(struct insitu_table, high), &high, sizeof(high)) != 0)
        return -EFAULT;
    high = high < ONESPACE_INSITU_CHANNELS ? high : ONESPACE_INSITU_CHANNELS;
    *channels = aligned_alloc(_Alignof(struct insitu_channel), (high + 1) * sizeof(**channels));
    if (!*channels)
        return -ENOMEM;
    for (uint32_t i = 0; i < high; i++) {
        struct insitu_channel *to = &(*channels)[count];
        uintptr_t from = LAYOUT_INSITU + offsetof(struct insitu_table, channels) + i * sizeof(*to);
        if (ps_copy(pid, from, to, sizeof(*to)) != 0 ||
            (load(&to->state) & CHANNEL_KIND_MASK) != CHANNEL_LIVE)
            continue;
        make_sane(to);
        count++;
    }
    return (int)count;
}

static const char *state_of(const struct insitu_channel *channel)
{
    if (load32(&channel->broken))
        return "broken";
    if (load(&channel->last) != UINT64_MAX)
        return "closed";
    return load32(&channel->joined) < channel->ranks ? "incomplete" : "open";
}

static const char *policy_of(const struct insitu_channel *channel)
{
    static const char *const policies[] = {"wait", "skip", "copy"};
    return channel->policy < 3 ? policies[channel->policy] : "unknown";
}

/* The producer's number of the newest step, or -1. */
static int64_t step_of(const struct insitu_channel *channel)
{
    uint64_t latest = load(&channel->latest), entry = latest & 0xff;
    return latest && entry < INSITU_ENTRIES ? (int64_t)load(&channel->entries[entry].step) : -1;
}

/* Steps complete that the consumer has not taken. */
static int64_t behind(const struct insitu_channel *channel, const struct insitu_consumer *consumer)
{
    uint64_t complete = load(&channel->complete), seen = load(&consumer->seen);
    return seen < complete ? (int64_t)(complete - seen) : 0;
}

static const char *mode_of(const struct insitu_consumer *consumer)
{
    switch (load32(&consumer->active)) {
    case 1 + ONESPACE_INSITU_LATEST:
        return "latest";
    case 1 + ONESPACE_INSITU_EVERY:
        return "every";
    default:
        return NULL; /* it is joining or leaving */
    }
}

/* ---- For people ---- */

static void print_consumer(FILE *out, const struct insitu_channel *channel,
                           const struct insitu_consumer *consumer)
{
    fprintf(out, "    consumer id %u takes %s: %" PRId64 " behind, holds %d\n",
            load32(&consumer->owner) - 1, mode_of(consumer), behind(channel, consumer),
            __builtin_popcount(load32(&consumer->holding)));
}

static void print_channel(FILE *out, const struct insitu_channel *channel)
{
    fprintf(out, "  channel %s: %s, policy %s, depth %u, %u rank%s", channel->name,
            state_of(channel), policy_of(channel), channel->depth, channel->ranks,
            channel->ranks == 1 ? "" : "s");
    if (channel->ranks == 1 && load32(&channel->rank[0].owner))
        fprintf(out, " (id %u)", load32(&channel->rank[0].owner) - 1);
    fprintf(out, ", %" PRIu64 " steps, %" PRIu64 " skipped", load(&channel->complete),
            load(&channel->skipped));
    if (step_of(channel) >= 0)
        fprintf(out, ", the latest is %" PRId64, step_of(channel));
    putc('\n', out);
}

void channels_print(FILE *out, const struct insitu_channel *channels, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        print_channel(out, &channels[i]);
        for (unsigned c = 0; c < load32(&channels[i].consumers_high); c++)
            if (mode_of(&channels[i].consumers[c]))
                print_consumer(out, &channels[i], &channels[i].consumers[c]);
    }
}

/* ---- For programs ---- */

static void write_consumer(struct output_json *json, const struct insitu_channel *channel,
                           const struct insitu_consumer *consumer)
{
    json_open(json, NULL, '{');
    json_integer(json, "id", (int64_t)load32(&consumer->owner) - 1);
    json_text(json, "mode", mode_of(consumer));
    json_integer(json, "behind", behind(channel, consumer));
    json_integer(json, "holding", __builtin_popcount(load32(&consumer->holding)));
    json_close(json, '}');
}

static void write_channel(struct output_json *json, const struct insitu_channel *channel)
{
    json_open(json, NULL, '{');
    json_text(json, "name", channel->name);
    json_text(json, "state", state_of(channel));
    json_text(json, "policy", policy_of(channel));
    json_integer(json, "depth", channel->depth);
    json_integer(json, "steps", (int64_t)load(&channel->complete));
    json_integer(json, "skipped", (int64_t)load(&channel->skipped));
    json_integer_from(json, "step", 0, step_of(channel));
    json_open(json, "producers", '[');
    for (unsigned r = 0; r < channel->ranks; r++)
        json_integer_from(json, NULL, 0, (int64_t)load32(&channel->rank[r].owner) - 1);
    json_close(json, ']');
    json_open(json, "consumers", '[');
    for (unsigned c = 0; c < load32(&channel->consumers_high); c++)
        if (mode_of(&channel->consumers[c]))
            write_consumer(json, channel, &channel->consumers[c]);
    json_close(json, ']');
    json_close(json, '}');
}

void channels_json(struct output_json *json, const struct insitu_channel *channels, unsigned count)
{
    json_open(json, "channels", '[');
    for (unsigned i = 0; i < count; i++)
        write_channel(json, &channels[i]);
    json_close(json, ']');
}
