/* examples/insitu.c: a simulation hands each step to an analysis, which reads it in place.
 *
 *   cc insitu.c -o insitu $(pkg-config --cflags --libs onespace)
 *   ./insitu
 *
 * It starts itself as the analysis, which sums the simulation's own array. Nothing is copied. */
#include <onespace/insitu.h>
#include <stdio.h>

enum { STEPS = 100, CELLS = 100000, TYPE = ONESPACE_INSITU_FLOAT64, PATIENCE_MS = 10000 };
static const char *const name = "fields/heat/values";
static double heat[CELLS];

static int simulate(struct onespace_insitu *channel)
{
    struct onespace_insitu_array array = {
        name, "K", heat, sizeof(heat), TYPE, .dimensions = 1, .shape = {CELLS}};
    for (uint64_t step = 1; step <= STEPS; step++) {
        int result = onespace_insitu_begin(channel, step, PATIENCE_MS); /* we may write the array */
        for (int i = 0; result == 0 && i < CELLS; i++)
            heat[i] = (double)step + i % 2;
        if (result || onespace_insitu_put(channel, &array) || onespace_insitu_publish(channel))
            return 1;
    }
    return onespace_insitu_close(channel, PATIENCE_MS) < 0; /* waits until all steps are released */
}

static int analyse(void)
{
    struct onespace_insitu *channel;
    struct onespace_insitu_step step;
    struct onespace_insitu_array array;
    if (onespace_insitu_open("heat", ONESPACE_INSITU_EVERY, PATIENCE_MS, &channel) < 0)
        return 1;
    while (onespace_insitu_take(channel, &step, PATIENCE_MS) == 0 &&
           onespace_insitu_get(channel, &step, 0, name, TYPE, &array) == 0) {
        double sum = 0;
        for (uint64_t i = 0; i < array.shape[0]; i++)
            sum += ((const double *)array.address)[i];
        if (onespace_insitu_release(channel, &step) < 0)
            return 1;
        if (step.step % 25 == 0)
            printf("step %d: mean %.1f K\n", (int)step.step, sum / CELLS);
    }
    return onespace_insitu_close(channel, 0) < 0;
}

int main(void)
{
    struct onespace_insitu *channel;
    struct onespace_status status = {.status = 1};
    struct onespace_insitu_options options = ONESPACE_INSITU_OPTIONS_INIT;
    char *words[] = {"./insitu", NULL};
    options.consumers = 1; /* the first step waits for it */
    if (onespace_init() > 0)
        return analyse();
    int result = onespace_insitu_create("heat", &options, &channel);
    int task = result < 0 ? result : onespace_spawn(words[0], words, NULL, NULL);
    return task < 0 || simulate(channel) || onespace_wait(task, &status, -1) < 0 || status.status;
}
