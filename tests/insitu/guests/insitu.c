/* tests/insitu/guests/insitu.c: producers and consumers of channels, which check every step that
 * they see: a torn one is exit status 3. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "programs/scene.h"
#include "onespace/insitu.h"

enum { ELEMENTS = 4096, PATIENCE_MS = 100000, TORN = 3, SETS = 4 };

static int failed(const char *what, int result)
{
    printf("%s: %s: %s\n", what, strerror(-result), onespace_insitu_message());
    return 1;
}

static uint64_t value_of(uint64_t step, uint64_t i)
{
    uint64_t mixed = (step << 32 | i) * UINT64_C(0x9E3779B97F4A7C15);
    return mixed ^ mixed >> 29;
}

static uint64_t fill(uint64_t *values, uint64_t step)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < ELEMENTS; i++)
        sum += values[i] = value_of(step, i);
    return sum;
}

static int describe(struct onespace_insitu *channel, uint64_t *values, uint64_t sum)
{
    struct onespace_insitu_array array = {.name = "x",
                                          .address = values,
                                          .bytes = ELEMENTS * sizeof(*values),
                                          .type = ONESPACE_INSITU_UINT64,
                                          .dimensions = 1,
                                          .shape = {ELEMENTS}};
    struct onespace_insitu_attribute checksum = {
        .name = "checksum", .type = ONESPACE_INSITU_INTEGER, .integer = (int64_t)sum};
    int result = onespace_insitu_put(channel, &array);
    return result < 0 ? result : onespace_insitu_put_attribute(channel, &checksum);
}

static int create(int argc, char **argv, struct onespace_insitu **channel)
{
    struct onespace_insitu_options options = ONESPACE_INSITU_OPTIONS_INIT;
    options.policy = atoi(argv[2]);
    options.depth = (unsigned)atoi(argv[3]);
    options.consumers = argc > 5 ? (unsigned)atoi(argv[5]) : 0;
    return onespace_insitu_create(argv[1], &options, channel);
}

static int give(struct onespace_insitu *channel, uint64_t step, unsigned sets)
{
    static uint64_t values[SETS][ELEMENTS], given;
    int result = onespace_insitu_begin(channel, step, PATIENCE_MS);
    if (result != 0)
        return result;
    uint64_t *set = values[given++ % sets];
    result = describe(channel, set, fill(set, step));
    return result < 0 ? result : onespace_insitu_publish(channel);
}

/* produce NAME POLICY DEPTH STEPS [CONSUMERS]: says "published", and closes when its input ends. */
SCENE(produce)
{
    struct onespace_insitu *channel;
    int result = argc >= 5 ? create(argc, argv, &channel) : -EINVAL;
    if (result < 0)
        return failed("create", result);
    unsigned sets = atoi(argv[2]) == ONESPACE_INSITU_COPY ? 1 : (unsigned)atoi(argv[3]);
    for (uint64_t step = 1; step <= strtoull(argv[4], NULL, 10); step++) {
        result = give(channel, step, sets);
        if (result < 0)
            return failed("give", result);
    }
    printf("published\n");
    while (getchar() != EOF)
        ;
    result = onespace_insitu_close(channel, PATIENCE_MS);
    return result < 0 ? failed("close", result) : 0;
}

/* produce-for-ever NAME POLICY DEPTH: closes and creates the channel anew now and then. */
SCENE(produce_for_ever)
{
    unsigned sets = atoi(argv[2]) == ONESPACE_INSITU_COPY ? 1 : (unsigned)atoi(argv[3]);
    for (;;) {
        struct onespace_insitu *channel;
        int result = create(argc, argv, &channel);
        if (result == -EEXIST) { /* the reaper is about to find that the last producer has died */
            usleep(1000);
            continue;
        }
        for (uint64_t step = 1; result >= 0 && step <= 2000; step++)
            result = give(channel, step, sets);
        if (result >= 0)
            result = onespace_insitu_close(channel, PATIENCE_MS);
        if (result < 0)
            return failed("produce", result);
    }
}

/* rank RANK RANKS: begins and publishes the steps that its input names, "give N", and says how that
 * went. */
SCENE(rank)
{
    struct onespace_insitu_options options = ONESPACE_INSITU_OPTIONS_INIT;
    struct onespace_insitu *channel;
    char line[64];
    options.rank = (unsigned)atoi(argv[2]);
    options.ranks = (unsigned)atoi(argv[3]);
    int result = onespace_insitu_create(argv[1], &options, &channel);
    if (result < 0)
        return failed("create", result);
    printf("created\n");
    while (fgets(line, sizeof(line), stdin))
        printf("%d\n", give(channel, strtoull(line + strlen("give "), NULL, 10), 1));
    return onespace_insitu_close(channel, PATIENCE_MS) < 0;
}

/* What is wrong with a step that is held, or 0. */
static int check(struct onespace_insitu *channel, const struct onespace_insitu_step *step)
{
    struct onespace_insitu_array array;
    struct onespace_insitu_attribute checksum;
    int result = onespace_insitu_get(channel, step, 0, "x", ONESPACE_INSITU_UINT64, &array);
    if (result == 0)
        result = onespace_insitu_get_attribute(channel, step, 0, "checksum", &checksum);
    if (result < 0)
        return failed("get", result);
    const volatile uint64_t *values = array.address;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < ELEMENTS; i++) {
        uint64_t value = values[i];
        sum += value;
        if (value == value_of(step->step, i))
            continue;
        printf("torn: element %d of step %d\n", (int)i, (int)step->step);
        return TORN;
    }
    if (sum == (uint64_t)checksum.integer)
        return 0;
    printf("torn: checksum of step %d\n", (int)step->step);
    return TORN;
}

/* consume NAME MODE: all steps until the end; says which was the first, how many, which was the
 * last, and how it ended. */
SCENE(consume)
{
    struct onespace_insitu *channel;
    struct onespace_insitu_step step;
    uint64_t last = 0;
    int count = 0, wrong = 0;
    int result =
        argc == 3 ? onespace_insitu_open(argv[1], atoi(argv[2]), PATIENCE_MS, &channel) : -EINVAL;
    if (result < 0)
        return failed("open", result);
    printf("open\n");
    while (!wrong && (result = onespace_insitu_take(channel, &step, PATIENCE_MS)) == 0) {
        wrong = step.step <= last ? printf("step %d after %d\n", (int)step.step, (int)last)
                                  : check(channel, &step);
        last = step.step;
        if (onespace_insitu_release(channel, &step) < 0)
            wrong = 1;
        if (count++ == 0)
            printf("took %d\n", (int)last);
    }
    printf("%d steps, the last %d: %s\n", count, (int)last, wrong ? "wrong" : strerror(-result));
    return wrong ? wrong : onespace_insitu_close(channel, 0);
}

/* hold NAME MODE: takes a step, says "holds N", checks it after a line of input and gives it back.
 */
SCENE(hold)
{
    struct onespace_insitu *channel = NULL;
    struct onespace_insitu_step step = {0};
    char line[64];
    int result = onespace_insitu_open(argv[1], atoi(argv[2]), PATIENCE_MS, &channel);
    if (result == 0)
        result = onespace_insitu_take(channel, &step, PATIENCE_MS);
    if (result < 0)
        return failed("take", result);
    printf("holds %d\n", (int)step.step);
    if (!fgets(line, sizeof(line), stdin))
        return 1;
    if (strncmp(line, "execute", 7) == 0) {
        execlp("sh", "sh", "-c", "echo executed; exec cat", (char *)NULL);
        return 1;
    }
    int wrong = check(channel, &step);
    result = onespace_insitu_release(channel, &step);
    printf("%s\n", wrong ? "torn" : result < 0 ? strerror(-result) : "whole");
    return wrong ? wrong : onespace_insitu_close(channel, 0);
}

/* consume-for-ever NAME MODE: comes and goes, holds for random times, until it is killed. */
SCENE(consume_for_ever)
{
    unsigned seed = (unsigned)getpid();
    for (;;) {
        struct onespace_insitu *channel;
        struct onespace_insitu_step step;
        int result = onespace_insitu_open(argv[1], atoi(argv[2]), PATIENCE_MS, &channel);
        if (result < 0)
            return failed("open", result);
        int stay = rand_r(&seed) % 300;
        while (stay-- && onespace_insitu_take(channel, &step, PATIENCE_MS) == 0) {
            if (rand_r(&seed) % 4 == 0)
                usleep((unsigned)rand_r(&seed) % 200);
            int wrong = check(channel, &step);
            if (wrong)
                return wrong;
            result = onespace_insitu_release(channel, &step);
            if (result < 0)
                return failed("release", result);
        }
        result = onespace_insitu_close(channel, 0);
        if (result < 0)
            return failed("close", result);
    }
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
