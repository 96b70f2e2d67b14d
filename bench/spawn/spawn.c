/* bench/spawn/spawn.c: the time to start N programs, all alive at once, and to wait for their ends.
 *
 * usage: spawn METHOD PROGRAM COUNT...
 *
 * METHOD: task, posix_spawn, fork, vfork, pthread, or clone: a kernel task in this address space
 * that runs no program. The program reads its standard input, a pipe that is closed when all have
 * been started. Prints "METHOD COUNT SECONDS", the seconds for each of the COUNT; small counts are
 * repeated and averaged. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../lib/bench.h"
#include "onespace.h"

enum {
    COUNT_MAX = 2000,
    CLONE_STACK = 4096, /* bytes */
    STARTS_MIN = 50     /* started per measurement, to exceed the clock's resolution */
};

extern char **environ;
static char *program_argv[2];

union handle {
    int id; /* of a task or a process */
    pthread_t thread;
};

/* Makes the pipe's read end standard input, which every method inherits. */
static int open_pipe(void)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0 || dup2(ends[0], STDIN_FILENO) < 0)
        bench_fail("pipe", strerror(errno));
    close(ends[0]);
    return ends[1];
}

static void start_task(union handle *handle)
{
    char message[256] = "";
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    attr.message = message;
    attr.message_size = sizeof(message);
    handle->id = onespace_spawn(program_argv[0], program_argv, NULL, &attr);
    if (handle->id < 0)
        bench_fail(*message ? message : "onespace_spawn", strerror(-handle->id));
}

static void end_task(union handle handle)
{
    struct onespace_status status;
    int id = onespace_wait(handle.id, &status, -1);
    if (id < 0 || status.status != 0)
        bench_fail("a task did not end with 0", strerror(id < 0 ? -id : ECHILD));
}

static void start_posix_spawn(union handle *handle)
{
    int error = posix_spawn(&handle->id, program_argv[0], NULL, NULL, program_argv, environ);
    if (error)
        bench_fail("posix_spawn", strerror(error));
}

static void start_fork(union handle *handle)
{
    handle->id = fork();
    if (handle->id == 0) {
        execve(program_argv[0], program_argv, environ);
        _exit(127);
    }
    if (handle->id < 0)
        bench_fail("fork", strerror(errno));
}

static void start_vfork(union handle *handle)
{
    int id = vfork();
    if (id == 0) {
        execve(program_argv[0], program_argv, environ);
        _exit(127);
    }
    handle->id = id;
    if (id < 0)
        bench_fail("vfork", strerror(errno));
}

/* The cloned child shares this program's thread-local storage, so it must not even set errno. It
 * shares the descriptors too: a copy of the pipe's write end would keep its own input open. */
static int clone_main(void *unused)
{
    char byte;
    (void)unused;
    syscall(SYS_exit_group, syscall(SYS_read, STDIN_FILENO, &byte, 1) != 0);
    return 0;
}

static void start_clone(union handle *handle)
{
    static _Alignas(16) char stacks[COUNT_MAX][CLONE_STACK];
    static int next;
    char *end = stacks[next] + CLONE_STACK;
    next = (next + 1) % COUNT_MAX;
    handle->id = clone(clone_main, end, CLONE_VM | CLONE_FILES | SIGCHLD, NULL);
    if (handle->id < 0)
        bench_fail("clone", strerror(errno));
}

static void end_process(union handle handle)
{
    int status;
    if (waitpid(handle.id, &status, 0) < 0 || status != 0)
        bench_fail("a process did not end with 0", strerror(errno));
}

static void *thread_main(void *unused)
{
    char byte;
    (void)unused;
    return read(STDIN_FILENO, &byte, 1) == 0 ? NULL : program_argv;
}

static void start_pthread(union handle *handle)
{
    int error = pthread_create(&handle->thread, NULL, thread_main, NULL);
    if (error)
        bench_fail("pthread_create", strerror(error));
}

static void end_pthread(union handle handle)
{
    void *wrong;
    int error = pthread_join(handle.thread, &wrong);
    if (error || wrong)
        bench_fail("a thread did not end well", strerror(error));
}

static const struct method {
    const char *name;
    void (*start)(union handle *);
    void (*end)(union handle);
} methods[] = {
    {"task", start_task, end_task},          {"posix_spawn", start_posix_spawn, end_process},
    {"fork", start_fork, end_process},       {"vfork", start_vfork, end_process},
    {"pthread", start_pthread, end_pthread}, {"clone", start_clone, end_process},
};

/* Seconds for each of `count`. */
static double run_once(const struct method *method, int count)
{
    static union handle handles[COUNT_MAX];
    int writer = open_pipe();
    double start = seconds_now();
    for (int i = 0; i < count; i++)
        method->start(&handles[i]);
    close(writer);
    for (int i = 0; i < count; i++)
        method->end(handles[i]);
    return (seconds_now() - start) / count;
}

static void measure(const struct method *method, int count)
{
    int repetitions = count < STARTS_MIN ? (STARTS_MIN + count - 1) / count : 1;
    double sum = 0;
    for (int i = 0; i < repetitions; i++)
        sum += run_once(method, count);
    bench_print(method->name, count, sum / repetitions);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const struct method *method = NULL;
    for (size_t i = 0; argc > 3 && i < sizeof(methods) / sizeof(methods[0]); i++)
        if (strcmp(methods[i].name, argv[1]) == 0)
            method = &methods[i];
    if (!method) {
        fprintf(stderr,
                "usage: spawn task|posix_spawn|fork|vfork|pthread|clone PROGRAM COUNT...\n");
        return 2;
    }
    program_argv[0] = argv[2];
    if (method->start == start_task) {
        int error = onespace_init();
        if (error < 0)
            bench_fail("onespace_init", strerror(-error));
    }
    run_once(method, 1); /* warms the page cache and creates the space */
    for (int i = 3; i < argc; i++) {
        int count = atoi(argv[i]);
        if (count < 1 || count > COUNT_MAX) {
            fprintf(stderr, "spawn: not a count from 1 to %d: %s\n", COUNT_MAX, argv[i]);
            return 2;
        }
        measure(method, count);
    }
    return 0;
}
