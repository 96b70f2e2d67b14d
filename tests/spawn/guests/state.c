/* tests/spawn/guests/state.c: tells what a process inherits and how it ends. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "programs/scene.h"

extern char **environ;

SCENE(exit)
{
    return argc > 1 ? atoi(argv[1]) : 0;
}

SCENE(die)
{
    signal(atoi(argv[argc - 1]), SIG_DFL);
    raise(atoi(argv[argc - 1]));
    return 121;
}

SCENE(sleep)
{
    printf("sleeping\n");
    usleep((useconds_t)atoi(argv[argc - 1]) * 1000);
    return 0;
}

/* Ends when its standard input does. */
SCENE(cat)
{
    char bytes[4096];
    printf("reading\n");
    for (ssize_t size; (size = read(0, bytes, sizeof(bytes))) > 0;)
        if (write(1, bytes, (size_t)size) != size)
            return 1;
    return 0;
}

SCENE(args)
{
    for (int i = 1; i < argc; i++)
        printf("%s\n", argv[i]);
    return 0;
}

SCENE(fds)
{
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        return 1;
    int open_fds[1024] = {0};
    for (struct dirent *entry; (entry = readdir(directory));)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(directory))
            open_fds[atoi(entry->d_name)] = 1;
    for (int fd = 0; fd < 1024; fd++)
        if (open_fds[fd])
            printf("%d ", fd);
    printf("\n");
    return 0;
}

SCENE(directory)
{
    char path[PATH_MAX];
    printf("%s\n", getcwd(path, sizeof(path)));
    return 0;
}

SCENE(umask)
{
    printf("%03o\n", (unsigned)umask(0));
    return 0;
}

SCENE(limits)
{
    for (int i = 0; i < (int)RLIM_NLIMITS; i++) {
        struct rlimit limit;
        if (getrlimit(i, &limit) == 0)
            printf("%d %llu %llu\n", i, (unsigned long long)limit.rlim_cur,
                   (unsigned long long)limit.rlim_max);
    }
    return 0;
}

SCENE(cpus)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            printf("%d ", i);
    printf("\n");
    return 0;
}

SCENE(environment)
{
    for (char **entry = environ; *entry; entry++)
        printf("%s\n", *entry);
    return 0;
}

SCENE(nice)
{
    printf("%d\n", getpriority(PRIO_PROCESS, 0));
    return 0;
}

SCENE(name)
{
    char name[17] = "";
    prctl(PR_GET_NAME, name);
    printf("%s\n", name);
    return 0;
}

SCENE(signals)
{
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int signal = 1; signal < 32; signal++) {
        struct sigaction action;
        if (sigaction(signal, NULL, &action) != 0)
            return 1;
        const char *what = action.sa_handler == SIG_IGN   ? "ignored"
                           : action.sa_handler == SIG_DFL ? NULL
                                                          : "caught";
        if (what)
            printf("%d %s\n", signal, what);
        if (sigismember(&mask, signal) == 1)
            printf("%d blocked\n", signal);
    }
    return 0;
}

/* Touches `argv[1]` KiB of the main stack in small steps. */
SCENE(stack)
{
    long left = argc > 1 ? atol(argv[1]) : 0;
    char page[1024];
    memset(page, (int)left, sizeof(page));
    __asm__ volatile("" : : "r"(page) : "memory");
    char number[24];
    snprintf(number, sizeof(number), "%ld", left - 1);
    char *next[] = {argv[0], number, NULL};
    if (left > 0)
        return play_stack(2, next) + (page[1] != (char)left);
    printf("deep\n");
    return 0;
}

SCENE(group)
{
    printf("%s\n", getpgrp() == getpid() ? "own" : "shared");
    return 0;
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
