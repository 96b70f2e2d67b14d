/* examples/plate.c: heat on a plate, described by the paths of Conduit's mesh blueprint; parameters
 * arrive through a second channel, and change between two steps.
 *
 *   cc plate.c -o plate $(pkg-config --cflags --libs onespace)
 *   onespace run --on-failure kill ./plate 200 : python3 plot_mesh.py .   (control_plate.py 20) */
#include <errno.h>
#include <onespace/insitu.h>
#include <stdio.h>
#include <stdlib.h>
enum { NX = 60, NY = 40, TYPE = ONESPACE_INSITU_FLOAT64, PATIENCE_MS = 60000 };
static double heat[NX * NY], power = 1, stop; /* these two are the parameters */
static const struct onespace_insitu_array field = {
    "fields/temperature/values", "degC", heat, 0, TYPE, .dimensions = 2, .shape = {NY, NX}};
static const struct onespace_insitu_attribute mesh[] = {
    {"coordsets/coords/type", ONESPACE_INSITU_TEXT, .text = "uniform"},
    {"coordsets/coords/dims/i", .integer = NX}, /* ONESPACE_INSITU_INTEGER */
    {"coordsets/coords/dims/j", .integer = NY},
    {"topologies/mesh/type", ONESPACE_INSITU_TEXT, .text = "uniform"},
    {"fields/temperature/association", ONESPACE_INSITU_TEXT, .text = "vertex"}};

static void take_parameters(void)
{
    static struct onespace_insitu *control;
    struct onespace_insitu_attribute given;
    struct onespace_insitu_step step;
    if (!control && onespace_insitu_open("plate-control", ONESPACE_INSITU_LATEST, 0, &control) < 0)
        return; /* no program controls it */
    int result = onespace_insitu_take(control, &step, 0);
    if (!result && !onespace_insitu_get_attribute(control, &step, 0, "power", &given))
        power = given.number;
    if (!result && !onespace_insitu_get_attribute(control, &step, 0, "stop", &given))
        stop = given.number;
    if (result == 0 ? onespace_insitu_release(control, &step) < 0 : result != -ETIMEDOUT)
        control = onespace_insitu_close(control, 0) < 0 ? control : NULL; /* another may come */
}

int main(int argc, char **argv)
{
    struct onespace_insitu_options options = ONESPACE_INSITU_OPTIONS_INIT;
    struct onespace_insitu *channel;
    int steps = argc > 1 ? atoi(argv[1]) : 0, step = 0, result = onespace_init();
    options.consumers = 1; /* the first step waits for it */
    result = result < 0 ? result : onespace_insitu_create("plate", &options, &channel);
    for (; result >= 0 && step < steps && !stop &&
           (result = onespace_insitu_begin(channel, (uint64_t)step + 1, PATIENCE_MS)) >= 0;
         step++) {
        take_parameters(); /* the arrays are ours now, too */
        heat[NY / 2 * NX + NX / 2] += 100 * power;
        for (double *at = heat + NX + 1; at < heat + NX * (NY - 1) - 1; at++)
            *at += 0.2 * (at[1] + at[-1] + at[NX] + at[-NX] - 4 * *at);
        for (size_t i = 0; result >= 0 && i < sizeof(mesh) / sizeof(mesh[0]); i++)
            result = onespace_insitu_put_attribute(channel, &mesh[i]);
        result = result < 0 ? result : onespace_insitu_put(channel, &field);
        result = result < 0 ? result : onespace_insitu_publish(channel);
    }
    if (result < 0)
        return fprintf(stderr, "plate: error %d. %s\n", -result, onespace_insitu_message()), 1;
    printf("%d steps, the power is %g at the end\n", step, power);
    return onespace_insitu_close(channel, PATIENCE_MS) < 0;
}
