/* tests/programs/patience.c MS: two tasks, of which the first waits in each way that has a limit
 * for what never comes. Prints "WAY RESULT" each time, and "early" if the limit had not passed on
 * the monotonic clock. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "onespace.h"
#include "onespace/insitu.h"

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void say(const char *way, int result, long since, int ms)
{
    printf("%s %d%s\n", way, result, now_ms() - since < ms ? " early" : "");
    fflush(stdout);
}

/* Its id, once it has started. Launchers start their tasks in any order. */
static int other_task(void)
{
    int id;
    while ((id = onespace_task(1 - onespace_number())) == -ESRCH)
        poll(NULL, 0, 10);
    return id;
}

int main(int argc, char **argv)
{
    static int done;
    int ms = argc > 1 ? atoi(argv[1]) : 1000;
    void *address;
    struct onespace_insitu *channel;
    int other = other_task();
    if (onespace_number() != 0) { /* lives until the first one ends, if not before */
        if (other > 0)
            (void)!onespace_import(other, "done", &address, NULL, -1);
        return 0;
    }
    long since = now_ms();
    say("import", onespace_import(other, "absent", &address, NULL, ms), since, ms);
    since = now_ms();
    say("barrier", onespace_barrier(ms), since, ms);
    since = now_ms();
    say("insitu", onespace_insitu_open("absent", ONESPACE_INSITU_LATEST, ms, &channel), since, ms);
    since = now_ms();
    say("poll", poll(NULL, 0, ms), since, ms);
    since = now_ms();
    say("sleep", nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL), since, ms);
    return onespace_export("done", &done, sizeof(done)) != 0;
}
