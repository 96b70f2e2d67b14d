/* examples/pip_exchange.c: Process-in-Process with start functions, hooks and named exports: each
 * task adds to a sum that its neighbour has exported.
 *
 *   cc pip_exchange.c -o pip_exchange $(pkg-config --cflags --libs onespace) -lpip
 *   ./pip_exchange 4
 */
#include <pip/pip.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs instead of main. Need not be exported. */
__attribute__((used)) static int add(void *argument)
{
    const int *numbers = argument; /* the root's memory itself */
    int id, ntasks, sum, *previous;
    pip_get_pipid(&id);
    pip_get_ntasks(&ntasks);
    sum = numbers[id];
    if (id > 0 && pip_named_import(id - 1, (void **)&previous, "sum of %d", id - 1) == 0)
        sum += *previous;
    pip_named_export(&sum, "sum of %d", id);
    void *done; /* sum is on our stack: wait until it has been read */
    return pip_named_import(PIP_PIPID_ROOT, &done, "done");
}

static int before(void *argument)
{
    printf("process %d becomes task %d\n", getpid(), *(int *)argument);
    return fflush(stdout);
}

int main(int argc, char **argv)
{
    int ntasks = argc > 1 ? atoi(argv[1]) : 3, *sum, numbers[PIP_NTASKS_MAX], failures = 0, status;
    int error = pip_init(NULL, &ntasks, NULL, 0);
    for (int i = 0; i < ntasks && !error; i++) {
        pip_spawn_program_t program;
        pip_spawn_hook_t hook;
        int id = i;
        numbers[i] = i + 1;
        pip_spawn_from_func(&program, argv[0], "add", numbers, NULL, NULL);
        pip_spawn_hook(&hook, before, NULL, &id);
        error = pip_task_spawn(&program, PIP_CPUCORE_ASIS, 0, &id, &hook);
    }
    if (error || pip_named_import(ntasks - 1, (void **)&sum, "sum of %d", ntasks - 1) != 0) {
        fprintf(stderr, "pip_exchange: %s\n", error ? strerror(error) : "a task ended early");
        return 1;
    }
    printf("the sum is %d\n", *sum);
    pip_named_export(sum, "done");
    while (pip_wait_any(NULL, &status) == 0)
        failures += status != 0;
    return pip_fin() != 0 || failures;
}
