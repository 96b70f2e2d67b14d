/* examples/barrier.c: tasks that were started together work on one array of the root, in step.
 *
 *   cc barrier.c -o barrier $(pkg-config --cflags --libs onespace)
 *   ./barrier 4
 *
 * A barrier also orders memory: all tasks see after it what each wrote before it. */
#include <onespace.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 100, TASKS_MAX = 64 };

static int work(void)
{
    void *address;
    int me = onespace_number(), count = onespace_ntasks();
    if (onespace_import(ONESPACE_ROOT, "cells", &address, NULL, 10000) < 0)
        return 1;
    long *cells = address; /* one of each task */
    for (int round = 0; round < ROUNDS; round++) {
        long left = cells[(me + count - 1) % count];
        if (onespace_barrier(10000) < 0) /* all have read */
            return 1;
        cells[me] = left + 1;
        if (onespace_barrier(10000) < 0) /* all have written */
            return 1;
    }
    return onespace_release(ONESPACE_ROOT) < 0;
}

int main(int argc, char **argv)
{
    static long cells[TASKS_MAX];
    int self = onespace_init();
    if (self > 0)
        return work();
    int count = argc > 1 ? atoi(argv[1]) : 4, failures = 0;
    if (self < 0 || count < 1 || count > TASKS_MAX ||
        onespace_export("cells", cells, sizeof(cells)) < 0)
        return 1;
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    char *task_argv[] = {argv[0], NULL};
    attr.ntasks = count;
    for (attr.number = 0; attr.number < count; attr.number++)
        if (onespace_spawn(argv[0], task_argv, NULL, &attr) < 0)
            return 1;
    struct onespace_status status;
    while (onespace_wait(ONESPACE_ANY, &status, -1) > 0)
        failures += status.status != 0;
    for (int i = 0; i < count; i++)
        failures += cells[i] != ROUNDS;
    printf("%d tasks, %d rounds: %s\n", count, ROUNDS, failures ? "wrong" : "every cell is right");
    return failures != 0;
}
