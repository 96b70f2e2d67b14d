/* tests/reaper/guests/threads_parent.c: a task that spawns one in thread mode: a thread of its
 * process. With a second argument it has a thread of its own, too, and changes its group as all of
 * its threads must. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "onespace.h"
#include "threads.h"

static void *sleep_long(void *argument)
{
    sleep(1000);
    return argument;
}

int main(int argc, char **argv)
{
    static struct report report;
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    char address[32], path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (argc < 2 || length < 0 || onespace_init() <= 0)
        return 1;
    path[length] = 0;
    path[length - (ssize_t)strlen("-parent")] = 0; /* the guest beside this one */
    snprintf(address, sizeof(address), "%lx", (unsigned long)&report);
    char *words[] = {path, argv[1], address, NULL};
    attr.flags = ONESPACE_SPAWN_THREAD;
    pthread_t thread;
    if (argc > 2 && pthread_create(&thread, NULL, sleep_long, NULL) != 0)
        return 1;
    int id = onespace_spawn(path, words, NULL, &attr);
    printf("%d\n", id);
    fflush(stdout);
    int ended = onespace_wait(id, NULL, -1);
    return ended == id && (argc < 3 || setegid(getegid()) == 0) ? 0 : 1;
}
