/* bench/insitu/handover.c: the time from when a producer's array is ready until a consumer reads
 * it. Two tasks, each on a CPU of its own, which spin.
 *
 *   handover BYTES STEPS
 *
 * Each step: the producer writes the time into the first element of an array from malloc, puts and
 * publishes it; the consumer reads the element and compares. Prints "handover BYTES SECONDS" for
 * each step after the first tenth, and "same BYTES 1" if the consumer's address was the producer's.
 */
#include <errno.h>
#include <onespace/insitu.h>

#include "../lib/bench.h"

static const char *const channel_name = "handover";

static void fail(const char *what, int result)
{
    fprintf(stderr, "handover: %s: %s: %s\n", what, strerror(-result), onespace_insitu_message());
    exit(1);
}

static double tick_seconds(void)
{
    double start = seconds_now(), end = start;
    uint64_t ticks = ticks_now();
    while (end < start + 0.05)
        end = seconds_now();
    return (end - start) / (double)(ticks_now() - ticks);
}

/* The consumer: given the bytes and the producer's address as text. */
static int consume(size_t bytes, const void *original, int steps)
{
    struct onespace_insitu *channel;
    struct onespace_insitu_step step;
    struct onespace_insitu_array array = {0};
    uint64_t *taken = calloc((size_t)steps, sizeof(*taken));
    double unit = tick_seconds();
    int result = onespace_insitu_open(channel_name, ONESPACE_INSITU_EVERY, 10000, &channel);
    if (result < 0)
        fail("open", result);
    for (int i = 0; i < steps; i++) {
        do
            result = onespace_insitu_take(channel, &step, 0);
        while (result == -ETIMEDOUT);
        if (result == 0)
            result = onespace_insitu_get(channel, &step, 0, "x", ONESPACE_INSITU_UINT64, &array);
        if (result < 0)
            fail("take", result);
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): fail() does not return */
        uint64_t written = *(volatile uint64_t *)array.address;
        taken[i] = ticks_now() - written;
        if (onespace_insitu_release(channel, &step) < 0)
            fail("release", -EINVAL);
    }
    for (int i = steps / 10; i < steps; i++)
        printf("handover %zu %.9f\n", bytes, (double)taken[i] * unit);
    printf("same %zu %d\n", bytes, array.address == original);
    return onespace_insitu_close(channel, 0);
}

static int produce(size_t bytes, int steps, uint64_t *values)
{
    struct onespace_insitu *channel;
    struct onespace_insitu_options options = ONESPACE_INSITU_OPTIONS_INIT;
    struct onespace_insitu_array array = {.name = "x",
                                          .address = values,
                                          .bytes = bytes,
                                          .type = ONESPACE_INSITU_UINT64,
                                          .dimensions = 1,
                                          .shape = {bytes / sizeof(*values)}};
    options.policy = ONESPACE_INSITU_WAIT;
    options.consumers = 1;
    int result = onespace_insitu_create(channel_name, &options, &channel);
    if (result < 0)
        fail("create", result);
    for (int i = 0; i < steps; i++) {
        result = onespace_insitu_begin(channel, (uint64_t)i, 10000);
        /* Gives the consumer time to start spinning. */
        for (uint64_t start = ticks_now(); ticks_now() < start + 20000;)
            ;
        values[0] = ticks_now();
        if (result == 0)
            result = onespace_insitu_put(channel, &array);
        if (result == 0)
            result = onespace_insitu_publish(channel);
        if (result < 0)
            fail("publish", result);
    }
    return onespace_insitu_close(channel, 10000);
}

static int start_consumer(char **argv, const void *values, const cpu_set_t *cpus)
{
    char address[32];
    char *words[] = {argv[0], argv[1], argv[2], address, NULL};
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    attr.cpus = cpus;
    attr.cpus_size = sizeof(*cpus);
    snprintf(address, sizeof(address), "%p", values);
    return onespace_spawn(argv[0], words, NULL, &attr);
}

int main(int argc, char **argv)
{
    cpu_set_t consumer_cpus;
    if (argc < 3)
        bench_fail("usage: handover BYTES STEPS", NULL);
    size_t bytes = strtoull(argv[1], NULL, 10);
    int steps = atoi(argv[2]);
    if (argc > 3) /* the producer's address */
        return consume(bytes, (void *)strtoull(argv[3], NULL, 16), steps);
    if (bench_cpu_count() < 2)
        bench_fail("two CPUs are needed", NULL);
    CPU_ZERO(&consumer_cpus);
    CPU_SET((size_t)bench_cpu(1), &consumer_cpus);
    uint64_t *values = bench_allocate(bytes);
    memset(values, 1, bytes);
    int result = onespace_init();
    if (result >= 0)
        result = start_consumer(argv, values, &consumer_cpus);
    if (result < 0)
        fail("start", result);
    bench_bind(bench_cpu(0));
    struct onespace_status status = {.status = 1};
    if (produce(bytes, steps, values) < 0 || onespace_wait(result, &status, 20000) < 0)
        return 1;
    return status.status != 0;
}
