/* tests/guard/guests/spawner.c: a task that starts another by itself: the child may not write to
 * its spawner's memory, and has its own.
 *
 *   spawner [write ADDRESS]
 *   spawner refused   spawns what could not be guarded: prints the results */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "onespace.h"

static volatile int value = 41;

static int spawn_unguarded(void)
{
    static const unsigned flags[] = {ONESPACE_SPAWN_NO_INTERPOSE, ONESPACE_SPAWN_THREAD,
                                     ONESPACE_SPAWN_CALLS};
    static char *const words[] = {"true", NULL};
    for (int i = 0; i < 3; i++) {
        struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
        char message[512] = "";
        attr.flags = flags[i];
        attr.message = message;
        attr.message_size = sizeof(message);
        int result = onespace_spawn("/usr/bin/true", words, NULL, &attr);
        printf("%d %s\n", result, message);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return spawn_unguarded();
    if (argc > 2) {
        value = 1; /* its own */
        *(volatile int *)strtoul(argv[2], NULL, 0) = 42;
        return value;
    }
    char address[32];
    snprintf(address, sizeof(address), "%p", (void *)&value);
    char *words[] = {argv[0], "write", address, NULL};
    struct onespace_status status;
    for (int i = 0; i < 3; i++) {
        int id = onespace_spawn(argv[0], words, NULL, NULL);
        assert(id > 0);
        id = onespace_wait(id, &status, 30000);
        assert(id > 0);
    }
    printf("%s, child %s\n", value == 41 ? "kept" : "changed",
           WIFSIGNALED(status.status) && WTERMSIG(status.status) == SIGSEGV ? "killed" : "lives");
    return 0;
}
