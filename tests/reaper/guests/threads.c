/* tests/reaper/guests/threads.c: scenes for thread mode. The last argument is the address of a
 * struct report in the spawner, which any task can write to; see threads.h. */
#include "threads.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/scene.h"

static int counter;
static __thread int local;
static struct report *report;

static void find_report(int argc, char **argv)
{
    report = (struct report *)strtoul(argv[argc - 1], NULL, 16);
    report->pid = getpid();
    report->tid = (int)syscall(SYS_gettid);
    report->global = &counter;
    report->local = &local;
}

static void at_end(void)
{
    report->handlers++;
}

SCENE(returns)
{
    find_report(argc, argv);
    atexit(at_end);
    counter++;
    report->value = ++counter;
    report->stream = fdopen(dup(report->fd), "w");
    fputs("buffered", report->stream); /* flushed at the end, as any stream */
    return 5;
}

SCENE(exit)
{
    find_report(argc, argv);
    atexit(at_end);
    exit(6);
}

SCENE(_exit)
{
    find_report(argc, argv);
    atexit(at_end);
    _exit(7);
}

SCENE(quick_exit)
{
    find_report(argc, argv);
    quick_exit(8);
}

SCENE(pthread_exit)
{
    find_report(argc, argv);
    atexit(at_end);
    pthread_exit(NULL);
}

static void *live_on(void *argument)
{
    __atomic_fetch_add(&report->threads, 1, __ATOMIC_RELAXED);
    for (;;)
        usleep(1000), __atomic_fetch_add(&report->beats, 1, __ATOMIC_RELAXED);
    return argument;
}

/* Returns while other threads of its own still run. */
SCENE(workers)
{
    pthread_t thread;
    find_report(argc, argv);
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread, NULL, live_on, NULL) != 0)
            return 1;
    while (report->threads < 3)
        usleep(1000);
    return 9;
}

static void *end_all(void *argument)
{
    (void)argument;
    exit(10);
}

/* A second thread calls exit while the first one works. */
SCENE(exit_elsewhere)
{
    pthread_t thread;
    find_report(argc, argv);
    if (pthread_create(&thread, NULL, end_all, NULL) != 0)
        return 1;
    live_on(NULL);
    return 2;
}

/* The main thread leaves first; the last one ends the task. */
static void *linger(void *argument)
{
    usleep(100000);
    report->value = 77;
    return argument;
}

SCENE(pthread_exit_first)
{
    pthread_t thread;
    find_report(argc, argv);
    if (pthread_create(&thread, NULL, linger, NULL) != 0)
        return 1;
    pthread_exit(NULL);
}

SCENE(raw_exit)
{
    find_report(argc, argv);
    syscall(SYS_exit, 3);
    return 1;
}

SCENE(execute)
{
    find_report(argc, argv);
    execl("/bin/true", "true", NULL);
    report->value = errno;
    return 11;
}

SCENE(children)
{
    extern char **environ;
    char *words[] = {"sh", "-c", "exit 3", NULL};
    pid_t child;
    int status;
    find_report(argc, argv);
    if (posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ) != 0 ||
        waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3)
        return 1;
    child = fork();
    if (child == 0)
        _exit(4);
    return waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4 ? 12 : 2;
}

SCENE(mask)
{
    sigset_t set;
    find_report(argc, argv);
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    report->value = sigismember(&set, SIGTERM) << 1 | sigismember(&set, SIGSEGV);
    return 0;
}

SCENE(wait)
{
    find_report(argc, argv);
    while (!report->go)
        usleep(1000);
    return 0;
}

SCENE(crash)
{
    find_report(argc, argv);
    raise(SIGSEGV);
    return 0;
}

SCENE(setuid)
{
    pthread_t thread;
    find_report(argc, argv);
    if (pthread_create(&thread, NULL, live_on, NULL) != 0)
        return 1;
    while (report->threads < 1)
        usleep(1000);
    if (setresuid(-1, geteuid(), -1) != 0) /* all threads of this libc are asked to do the same */
        return 2;
    int beats = report->beats;
    while (report->beats == beats)
        usleep(1000);
    return 13;
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
