/* examples/call.c: a simulation calls its analysis, a program of its own, after each step.
 *
 *   cc call.c -o call $(pkg-config --cflags --libs onespace)
 *   ./call
 *
 * It starts itself as the analysis, which has its own heap and globals. Nothing waits or is copied.
 */
#include <onespace/call.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { STEPS = 100, CELLS = 100000 };
struct field {
    int step;
    double heat[CELLS];
};
static double *means; /* the analysis's */

/* Runs with the analysis's malloc, errno and globals. */
static intptr_t analyse(void *simulated)
{
    const struct field *field = simulated;
    double sum = 0;
    means = means ? means : malloc(STEPS * sizeof(double));
    for (int i = 0; i < CELLS; i++)
        sum += field->heat[i];
    if (means)
        means[field->step - 1] = sum / CELLS;
    if (field->step % 25 == 0) /* the descriptor is the simulation's */
        dprintf(1, "step %d: mean %.1f K\n", field->step, sum / CELLS);
    return means ? 0 : -1;
}

static int be_the_analysis(void)
{
    return onespace_call_serve() || onespace_export("analyse", (void *)(intptr_t)analyse, 1) ||
           pause(); /* its own work would be here */
}

int main(void)
{
    static struct field field;
    char *words[] = {"./call", NULL};
    void *address;
    intptr_t result;
    if (onespace_init() > 0)
        return be_the_analysis();
    int task = onespace_spawn(words[0], words, NULL, NULL);
    if (task < 0 || onespace_import(task, "analyse", &address, NULL, 10000) < 0)
        return 1;
    onespace_call_function *call = (onespace_call_function *)(intptr_t)address;
    for (field.step = 1; field.step <= STEPS; field.step++) {
        for (int i = 0; i < CELLS; i++)
            field.heat[i] = field.step + i % 2;
        if (onespace_call(task, call, &field, &result) < 0 || result < 0)
            return puts(onespace_call_message()), 1;
    }
    return onespace_kill(task, SIGTERM) < 0 || onespace_wait(task, NULL, -1) < 0;
}
