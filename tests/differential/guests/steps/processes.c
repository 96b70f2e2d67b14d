/* tests/differential/guests/steps/processes.c: children that run steps, execute programs and end in
 * all ways. */
#include "steps.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { DEPTH_MAX = 3 };

static int depth;

pid_t fork_quietly(void)
{
    pid_t child = fork();
    if (child == 0)
        depth++;
    return child;
}

static void say_status(int status)
{
    if (WIFEXITED(status))
        say(" exited %d", WEXITSTATUS(status));
    else if (WIFSIGNALED(status))
        say(" killed %d", WTERMSIG(status));
    else if (WIFSTOPPED(status))
        say(" stopped %d", WSTOPSIG(status));
    else if (WIFCONTINUED(status))
        say(" continued");
}

void say_end_of(pid_t pid)
{
    int status = 0;
    pid_t result;
    if (pid < 0) {
        say_result(-1);
        return;
    }
    do
        result = waitpid(pid, &status, 0);
    while (result < 0 && errno == EINTR);
    if (result == pid)
        say_status(status);
    else
        say_result(result);
}

/* As a relation, since numbers differ. */
void say_process(pid_t pid)
{
    say(pid == getpid() ? " self" : pid == getppid() ? " parent" : pid > 1 ? " other" : " %d", pid);
}

static const char *nested[5];
static char from_text[16], to_text[16];

/* The arguments of this program for the steps up to `end`. */
static char **arguments_for(int end)
{
    snprintf(from_text, sizeof(from_text), "%d", next_step);
    snprintf(to_text, sizeof(to_text), "%d", end);
    nested[0] = own_path;
    nested[1] = program_path;
    nested[2] = from_text;
    nested[3] = to_text;
    return (char **)nested;
}

/* count way: a child runs the next steps, itself or by another program */
OPERATION(fork)
{
    int end = end_of(a[0] % 32 + 1);
    if (depth >= DEPTH_MAX)
        return;
    end_line();
    pid_t child = fork_quietly();
    if (child == 0) {
        if (a[1] % 4 == 3)
            execv(own_path, arguments_for(end));
        run_steps(end);
        if (a[1] % 4 == 2)
            kill(getpid(), SIGKILL);
        _exit(a[2] % 100);
    }
    next_step = end;
    say_end_of(child);
}

/* count way: a child by vfork changes what is its own, and executes this program, or fails to */
OPERATION(vfork)
{
    int end = end_of(a[0] % 16 + 1), way = a[1] % 6;
    char **arguments = arguments_for(end);
    if (depth >= DEPTH_MAX)
        return;
    end_line();
    volatile int error = 0;
    pid_t child = vfork();
    /* NOLINTBEGIN(clang-analyzer-unix.Vfork): the point */
    if (child == 0) {
        if (way == 1) {
            struct sigaction ignore = {.sa_handler = SIG_IGN};
            sigaction(a[2] % 2 ? SIGSEGV : SIGUSR1, &ignore, NULL);
        }
        if (way == 2)
            close(0);
        if (way == 3)
            execve("/nonexistent", arguments, environ);
        if (way == 4)
            execve(a[2] % 2 ? "." : own_path, bad_pointer(), environ);
        if (way >= 3)
            error = errno;
        if (way >= 3)
            _exit(a[2] % 50);
        execve(own_path, arguments, environ);
        _exit(127);
    }
    /* NOLINTEND(clang-analyzer-unix.Vfork) */
    next_step = way < 3 ? end : next_step;
    say(" errno %d", error);
    say_end_of(child);
}

/* count way: steps by a process that posix_spawn makes */
OPERATION(posix_spawn)
{
    int end = end_of(a[0] % 16 + 1), way = a[1] % 6;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t set;
    pid_t child = -1;
    char **arguments = arguments_for(end);
    end_line();
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    if (way == 1)
        posix_spawn_file_actions_addclose(&actions, 0);
    if (way == 2)
        posix_spawn_file_actions_addopen(&actions, 5, "/dev/null", O_RDONLY, 0);
    if (way == 3) {
        posix_spawnattr_setsigmask(&attributes, &set);
        posix_spawnattr_setsigdefault(&attributes, &set);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    if (way == 4)
        posix_spawn_file_actions_adddup2(&actions, 777, 3);
    int error = posix_spawn(&child, way == 5 ? "/nonexistent" : own_path, &actions, &attributes,
                            arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    say(" %d", error);
    if (error == 0) {
        next_step = end;
        say_end_of(child);
    }
}

/* Calls of exec that fail, in this process itself */
OPERATION(exec_bad)
{
    char *const arguments[] = {"x", NULL};
    switch (a[0] % 8) {
    case 0:
        say_result(execve("/nonexistent", arguments, environ));
        break;
    case 1:
        say_result(execve("/etc", arguments, environ));
        break;
    case 2:
        say_result(execve(bad_pointer(), arguments, environ));
        break;
    case 3:
        say_result(execve(own_path, bad_pointer(), environ));
        break;
    case 4:
        say_result(execve(own_path, arguments, bad_pointer()));
        break;
    case 5:
        say_result(execve("/etc/passwd", arguments, environ));
        break;
    case 6:
        say_result(syscall(SYS_execveat, descriptor_of(a[1]), "x", arguments, environ, 0));
        break;
    default:
        say_result(execve("", arguments, environ));
    }
}

/* The rest of the program is run by this program executed anew: a task leaves its space. */
OPERATION(exec)
{
    end_line();
    execv(own_path, arguments_for(1 << 14));
    say_result(-1);
}

OPERATION(wait_none)
{
    siginfo_t info = {0};
    int status = 0;
    switch (a[0] % 5) {
    case 0:
        say_result(waitpid(-1, &status, WNOHANG));
        break;
    case 1:
        say_result(waitpid(-1, NULL, WNOHANG | WUNTRACED | WCONTINUED));
        break;
    case 2:
        say_result(waitid(P_ALL, 0, &info, WEXITED | WNOHANG));
        break;
    case 3:
        say_result(waitpid(1, NULL, 0));
        break;
    default:
        say_result(waitid(P_PGID, 0, &info, WEXITED | WNOHANG | WNOWAIT));
    }
}

/* A child that stops, is continued, and ends: of its signals one is pending in the end. */
OPERATION(stop)
{
    int status = 0;
    sigset_t ends, mask;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ends, &mask);
    pid_t child = fork_quietly();
    if (child == 0) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_UNBLOCK, &all, NULL);
        raise(SIGSTOP);
        _exit(a[0] % 50);
    }
    if (child < 0)
        say_result(-1);
    while (child > 0 && waitpid(child, &status, WUNTRACED) < 0 && errno == EINTR)
        ;
    if (child > 0)
        say_status(status);
    if (WIFSTOPPED(status)) {
        kill(child, a[1] % 2 ? SIGCONT : SIGKILL);
        say_end_of(child);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
}

/* waitid leaves the child to be waited for, and says what waitpid says then */
OPERATION(waitid)
{
    siginfo_t info = {0};
    pid_t child = fork_quietly();
    if (child == 0)
        _exit(a[0] % 50);
    if (child < 0) {
        say_result(-1);
        return;
    }
    long result;
    do
        result = waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
    while (result < 0 && errno == EINTR);
    say_result(result);
    say(" %s code %d status %d", info.si_pid == child ? "child" : "other", info.si_code,
        info.si_status);
    say_end_of(child);
}

/* A descriptor of a child becomes readable when it ends, which it does when our end of the pipe is
 * closed. */
OPERATION(pidfd)
{
    int ends[2];
    if (pipe(ends) != 0) {
        say_result(-1);
        return;
    }
    pid_t child = fork_quietly();
    if (child == 0) {
        char byte;
        close(ends[1]);
        (void)!read(ends[0], &byte, 1);
        _exit(a[0] % 50);
    }
    int fd = (int)syscall(SYS_pidfd_open, child, 0);
    say_result(fd);
    close(ends[1]);
    close(ends[0]);
    if (fd >= 0) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        while (poll(&ready, 1, -1) < 0 && errno == EINTR)
            ;
        say(" %x", (unsigned)ready.revents & POLLIN);
        close(fd);
    }
    say_end_of(child);
}

OPERATION(process_numbers)
{
    say_process(getpid());
    say(" %s", getppid() > 0 ? "parent" : "none");
    say(" %s", syscall(SYS_gettid) == getpid() ? "main" : "thread");
    say(" %s", getpgid(0) == getpgrp() ? "same" : "other");
    say(" %d %d", getsid(0) == getsid(getpid()), getpgid(0x7fffffff));
    say(" %d %d %d %d", (int)getuid(), (int)geteuid(), (int)getgid(), (int)getegid());
}

/* Groups and sessions, in a child, since they are the launcher's to set */
OPERATION(session)
{
    end_line();
    pid_t child = fork_quietly();
    if (child == 0) {
        say_result(a[0] % 3 == 0   ? setpgid(0, 0)
                   : a[0] % 3 == 1 ? setsid() == getpid()
                                   : setpgid(0, 1));
        say(" %s %s", getpgrp() == getpid() ? "leader" : "follower",
            getsid(0) == getpid() ? "session" : "old");
        end_line();
        _exit(0);
    }
    say_end_of(child);
}

/* A grandchild whose parent is gone comes to a subreaper */
OPERATION(orphan)
{
    int ends[2];
    char byte;
    end_line();
    if (pipe(ends) != 0) {
        say_result(-1);
        return;
    }
    say_result(prctl(PR_SET_CHILD_SUBREAPER, 1));
    pid_t child = fork_quietly();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            close(ends[1]);
            (void)!read(ends[0], &byte, 1); /* until the ends of all others are closed */
            _exit(a[0] % 50);
        }
        _exit(grandchild < 0);
    }
    say_end_of(child);
    close(ends[1]);
    close(ends[0]);
    int status = 0;
    pid_t result;
    do
        result = waitpid(-1, &status, 0);
    while (result < 0 && errno == EINTR);
    say(result > 0 ? " adopted" : " none");
    say_status(status);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* How the program, or the child that runs the step, ends */
OPERATION(exit)
{
    end_line();
    switch (a[0] % 4) {
    case 0:
        _exit(a[1] % 90);
    case 1:
        syscall(SYS_exit_group, a[1] % 90);
        break;
    case 2:
        kill(getpid(), SIGKILL);
        break;
    default:
        signal(SIGTERM, SIG_DFL);
        raise(SIGTERM);
        _exit(a[1] % 90); /* blocked */
    }
}
