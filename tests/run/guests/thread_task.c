/* tests/run/guests/thread_task.c: a task that may be a thread of another's process.
 *
 * usage: thread_task add | exit STATUS | wait | crash */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int counter;

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "add") == 0)
        printf("%d %ld %d\n", getpid(), syscall(SYS_gettid), ++counter);
    if (strcmp(what, "exit") == 0)
        exit(argc > 2 ? atoi(argv[2]) : 0);
    if (strcmp(what, "crash") == 0)
        raise(SIGSEGV);
    if (strcmp(what, "wait") == 0) {
        puts("waiting");
        fflush(stdout);
        sleep(600);
    }
    return 0;
}
