/* examples/spawn_wait.c: run a stock program several times as tasks and collect how each ended.
 *
 *   cc spawn_wait.c -o spawn_wait $(pkg-config --cflags --libs onespace)
 *   ./spawn_wait 3 sh -c 'echo task $$; exit 2'
 */
#include <onespace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: spawn_wait COUNT PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    int self = onespace_init();
    if (self < 0) {
        fprintf(stderr, "cannot make a space: %s\n", strerror(-self));
        return 1;
    }
    /* The message says what is wrong with a program and how to fix it; the result is just an error
     * number. */
    char message[512] = "";
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    attr.message = message;
    attr.message_size = sizeof(message);

    int count = atoi(argv[1]), failures = 0;
    for (int i = 0; i < count; i++) {
        int id = onespace_spawn(argv[2], argv + 2, NULL, &attr);
        if (id < 0) {
            fprintf(stderr, "spawn_wait: %s\n", message[0] ? message : strerror(-id));
            return 1;
        }
    }
    struct onespace_status status;
    while (onespace_wait(ONESPACE_ANY, &status, -1) > 0) { /* -ECHILD: all are reaped */
        if (WIFEXITED(status.status))
            printf("task %d (pid %d) exited with %d\n", status.id, status.pid,
                   WEXITSTATUS(status.status));
        else
            printf("task %d (pid %d) was ended by signal %d\n", status.id, status.pid,
                   WTERMSIG(status.status));
        failures += status.status != 0;
    }
    return onespace_fini() == 0 && failures == 0 ? 0 : 1;
}
