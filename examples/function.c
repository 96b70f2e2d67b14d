/* examples/function.c: a task calls a function of another task, on its own data.
 *
 *   cc function.c -o function $(pkg-config --cflags --libs onespace) -lm
 *   ./function
 *
 * Correct for functions that use only arguments, constants and globals. Per-thread state (errno,
 * malloc's lists, standard streams' locks) would be the caller's, and does not match the owner's
 * libc: docs/sharing.md. */
#include <math.h>
#include <onespace.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

double factor = 1; /* one per task; the function uses its owner's */

double model(double x)
{
    return factor * x * sqrt(x);
}

static int serve(void)
{
    factor = 10;
    if (onespace_export("factor is set", &factor, sizeof(factor)) < 0)
        return 1;
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    void *address;
    int self = onespace_init();
    if (self > 0)
        return serve();
    char *task_argv[] = {argv[0], NULL};
    (void)argc;
    int task = onespace_spawn(argv[0], task_argv, NULL, NULL);
    if (task < 0 || onespace_import(task, "factor is set", &address, NULL, 10000) < 0 ||
        onespace_lookup(task, "model", &address, NULL) < 0)
        return 1;
    double (*their_model)(double) = (double (*)(double))address;
    printf("model(4): %g here, %g in the task\n", model(4), their_model(4));
    return onespace_kill(task, SIGTERM) < 0 || onespace_wait(task, NULL, -1) != task ||
           onespace_release(task) < 0;
}
