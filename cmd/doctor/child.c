/* cmd/doctor/child.c: see doctor.h. */
#include "cmd/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads until the end of the pipe: 0 or -ETIMEDOUT. What does not fit is dropped. */
static int read_answer(int in, char *answer, size_t size, long deadline)
{
    char rest[512];
    size_t used = 0;
    for (;;) {
        struct pollfd wanted = {.fd = in, .events = POLLIN};
        long left = deadline - now_ms();
        int ready = left > 0 ? poll(&wanted, 1, (int)left) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return -ETIMEDOUT;
        ssize_t count = used + 1 < size ? read(in, answer + used, size - 1 - used)
                                        : read(in, rest, sizeof(rest));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return 0;
        if (used + 1 < size)
            used += (size_t)count;
        answer[used] = 0;
    }
}

static void enter_child(int out, void (*function)(int, void *), void *context)
{
    struct rlimit no_core = {0, 0};
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    setpgid(0, 0); /* so that its own children can be killed with it */
    setrlimit(RLIMIT_CORE, &no_core);
    for (int fd = 0; fd < 3 && nowhere >= 0; fd++)
        dup2(nowhere, fd);
    function(out, context);
    _exit(0);
}

int doctor_child(void (*function)(int, void *), void *context, char *answer, size_t size,
                 int timeout_ms)
{
    int ends[2], status;
    answer[0] = 0;
    fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    pid_t child = fork();
    if (child < 0) {
        int error = errno;
        close(ends[0]);
        close(ends[1]);
        return -error;
    }
    if (child == 0)
        enter_child(ends[1], function, context);
    setpgid(child, child); /* in both processes: either may be first */
    close(ends[1]);
    int result = read_answer(ends[0], answer, size, now_ms() + timeout_ms);
    close(ends[0]);
    if (result < 0)
        kill(-child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return result < 0 ? result : status;
}

static void run_command(int out, void *context)
{
    char *const *argv = context;
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execvp(argv[0], argv);
    _exit(127);
}

int doctor_command(char *const argv[], char *output, size_t size, int timeout_ms)
{
    return doctor_child(run_command, (void *)argv, output, size, timeout_ms);
}

int doctor_read(const char *path, char *text, size_t size)
{
    text[0] = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t length = read(fd, text, size - 1);
    int error = errno;
    close(fd);
    if (length < 0)
        return -error;
    text[length] = 0;
    text[strcspn(text, "\n")] = 0;
    return 0;
}
