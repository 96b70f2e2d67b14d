/* examples/lookup.c: find a variable of another task by its name and follow it while it changes.
 *
 *   cc lookup.c -o lookup $(pkg-config --cflags --libs onespace)
 *   ./lookup
 *
 * The task is not involved and exports nothing. This is how a monitor reads the state of a
 * simulation. The variable needs no -rdynamic: names in the file's symbol table are found as well,
 * unless the file was stripped. */
#include <onespace.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

_Atomic long steps_done;

static void simulate(void)
{
    for (;;) {
        atomic_fetch_add(&steps_done, 1);
        usleep(1000);
    }
}

int main(int argc, char **argv)
{
    int self = onespace_init();
    if (self > 0)
        simulate();
    char *task_argv[] = {argv[0], NULL};
    struct onespace_status status;
    size_t size;
    void *found;
    (void)argc;
    int id = self < 0 ? self : onespace_spawn(argv[0], task_argv, NULL, NULL);
    /* The task may still be loading its libraries: wait until the name appears. */
    int result = -1;
    for (int tries = 0; id > 0 && tries < 1000 && result < 0; tries++) {
        result = onespace_lookup(id, "steps_done", &found, &size);
        usleep(1000);
    }
    if (result < 0) {
        fprintf(stderr, "lookup: %s\n", strerror(id < 0 ? -id : -result));
        return 1;
    }
    const _Atomic long *theirs = found;
    while (atomic_load(theirs) < 3)
        usleep(1000);
    printf("task %d owns %zu bytes of steps_done, which is at least 3; ours is %ld\n",
           onespace_owner(found), size, atomic_load(&steps_done));
    if (onespace_kill(id, SIGTERM) < 0 || onespace_wait(id, &status, -1) != id)
        return 1;
    return !(WIFSIGNALED(status.status) && WTERMSIG(status.status) == SIGTERM);
}
