/* cmd/run/observer.c: a process beside a space that was started by hand, which says why the kernel
 * has ended it: the root shares its tasks' memory and is ended with them. Only where a control
 * group limits the memory; elsewhere there is nothing to tell. */
#include "cmd/run/run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/raw.h"
#include "host/room/oom.h"

enum { LOOK_MS = 1000 };

static int line = -1; /* a pipe: a byte says goodbye, end-of-file that the root was killed */

static _Noreturn void observe(int from, struct oom_watch *watch)
{
    struct pollfd root = {from, POLLIN, 0};
    char message[1024], goodbye;
    for (int events = 0; events <= 0; events = poll(&root, 1, LOOK_MS))
        if (events == 0)
            oom_watch_look(watch);
    if (read(from, &goodbye, 1) == 0 && oom_watch_say(watch, message, sizeof(message)))
        fprintf(stderr, "onespace run: %s\n", message);
    _exit(0);
}

/* Holds nothing open but what it says its message on. Whoever signals the job means the root. */
static void become_observer(int from)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_NAME, "onespace-watch");
    dup2(from, 0);
    dup2(2, 1);
    descriptors_close_range(3, ~0u);
}

void observer_start(void)
{
    static struct oom_watch watch;
    int ends[2], root = getpid();
    oom_watch_begin(&watch, root);
    if (!oom_watch_is_limited(&watch) || pipe2(ends, O_CLOEXEC) != 0)
        return;
    pid_t observer = fork();
    if (observer == 0) {
        become_observer(ends[0]);
        observe(0, &watch);
    }
    close(ends[0]);
    line = ends[1];
    if (observer > 0) /* where only named processes may read another's memory */
        prctl(PR_SET_PTRACER, observer, 0, 0, 0);
}

void observer_end(void)
{
    if (line >= 0 && write(line, "", 1) == 1)
        close(line);
    line = -1;
}
