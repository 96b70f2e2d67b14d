/* tests/cmd/guests/observed_root.c [TASKS]: a root with a task that exited with 7 and one that
 * SIGTERM ended, or that many in all, none collected, and a forked child, whose pid it prints.
 * Waits for the end of its input. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "onespace.h"

static int start(const char *script)
{
    char *argv[] = {"/bin/sh", "-c", (char *)script, NULL};
    int id = onespace_spawn(argv[0], argv, NULL, NULL);
    if (id < 0)
        exit(2);
    for (const volatile uint32_t *ended = onespace_watch(id); !*ended;)
        poll(NULL, 0, 10);
    return id;
}

int main(int argc, char **argv)
{
    int tasks = argc > 1 ? atoi(argv[1]) : 2;
    if (onespace_init() < 0)
        return 1;
    for (int i = 0; i < tasks; i++)
        start(i % 2 ? "kill -TERM $$" : "exit 7");
    pid_t child = fork();
    if (child == 0) {
        while (getchar() != EOF)
            ;
        _exit(0);
    }
    printf("ready %d\n", (int)child);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    kill(child, SIGKILL);
    return 0;
}
