/* tests/programs/member.c: tasks that use the API. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scene.h"
#include "onespace.h"

enum { PATIENCE_MS = 180000 }; /* for what hangs */

static int exported_number = 4711;

static int failed(const char *what, int result)
{
    printf("%s: %s\n", what, strerror(-result));
    return 1;
}

static int ended(const struct onespace_status *status)
{
    if (WIFSIGNALED(status->status))
        return printf("signal %d\n", WTERMSIG(status->status));
    return printf("ended %d\n", WEXITSTATUS(status->status));
}

/* is [MILLISECONDS]: whether it is a task, after so long: exit status 0 or 1. */
SCENE(is)
{
    if (argc > 1)
        usleep((useconds_t)atoi(argv[1]) * 1000);
    return onespace_self() <= 0;
}

/* spawn PROGRAM ARGUMENT...: and waits for it. */
SCENE(spawn)
{
    struct onespace_status status;
    int id = onespace_spawn(argv[1], argv + 1, NULL, NULL);
    if (id < 0)
        return failed("spawn", id);
    int result = onespace_wait(id, &status, PATIENCE_MS);
    if (result != id)
        return failed("wait", result);
    ended(&status);
    return 0;
}

SCENE(changed_spawn)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 222;
    if (chdir("/usr") != 0 || setrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        setpriority(PRIO_PROCESS, 0, 3) != 0)
        return failed("change", -errno);
    umask(0051);
    signal(SIGHUP, SIG_IGN);
    int id = onespace_spawn(argv[1], argv + 1, NULL, NULL);
    return id < 0 ? failed("spawn", id) : onespace_wait(id, NULL, PATIENCE_MS) != id;
}

SCENE(spawn_and_leave)
{
    int id = onespace_spawn(argv[1], argv + 1, NULL, NULL);
    if (id < 0)
        return failed("spawn", id);
    printf("left\n");
    return 0;
}

/* spawn-and-execute PROGRAM ARGUMENT...: collects no status, and becomes cat. */
SCENE(spawn_and_execute)
{
    int id = onespace_spawn(argv[1], argv + 1, NULL, NULL);
    if (id < 0)
        return failed("spawn", id);
    execlp("cat", "cat", (char *)NULL);
    return failed("exec", -errno);
}

/* With the spawner's thread pointer and memory. */
static int hang(void *unused)
{
    (void)unused;
    dprintf(1, "%ld\n", syscall(SYS_getpid));
    for (;;)
        pause();
    return 0;
}

/* hang-before: its child says its PID and goes no further. */
SCENE(hang_before)
{
    char *words[] = {"true", NULL};
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    attr.before = hang;
    return failed("spawn", onespace_spawn(words[0], words, NULL, &attr));
}

/* orphan PROGRAM ARGUMENT...: says the id of what it spawned and ends when its input ends. */
SCENE(orphan)
{
    int id = onespace_spawn(argv[1], argv + 1, NULL, NULL);
    printf("%d\n", id);
    return getchar() == EOF ? 0 : 1;
}

SCENE(number)
{
    if (onespace_number() == -ENOENT && onespace_ntasks() == -ENOENT)
        return printf("none\n") < 0;
    return printf("%d of %d\n", onespace_number(), onespace_ntasks()) < 0;
}

/* export-and-exec PROGRAM: after a line of input; the program then finds "go on". */
SCENE(export_and_exec)
{
    char line[64];
    int result = onespace_export("number", &exported_number, sizeof(exported_number));
    if (result < 0)
        return failed("export", result);
    if (read(0, line, sizeof(line)) <= 0)
        return 1;
    if (argc > 1 && strcmp(argv[1], "cat") == 0) { /* it shall say something before it waits */
        execlp("sh", "sh", "-c", "echo go on; exec cat", (char *)NULL);
    }
    execlp(argv[1], argv[1], (char *)NULL);
    printf("exec: %s\n", strerror(errno));
    return getchar() == EOF ? 1 : 2;
}

SCENE(export_and_end)
{
    return onespace_export("number", &exported_number, sizeof(exported_number)) != 0;
}

/* export-and-run COMMAND: as a child. */
SCENE(export_and_run)
{
    int result = onespace_export("number", &exported_number, sizeof(exported_number));
    if (result < 0)
        return failed("export", result);
    if (system(argv[1]) != 0)
        return 1;
    printf("ran\n");
    return getchar() == EOF ? 0 : 2;
}

static int refused(const char *what, long result)
{
    if (result == -EPERM)
        return 0;
    printf("%s: %ld\n", what, result);
    return 1;
}

/* A forked child of a task is not a member; the task stays one. */
SCENE(fork)
{
    char *words[] = {"true", NULL};
    void *address;
    int number = 0, status;
    int result = onespace_export("before", &number, sizeof(number));
    pid_t child = result == 0 ? fork() : -1;
    if (child == 0) {
        int wrong = refused("self", onespace_self()) + refused("init", onespace_init()) +
                    refused("fini", onespace_fini()) + refused("number", onespace_number()) +
                    refused("ntasks", onespace_ntasks()) +
                    refused("spawn", onespace_spawn("true", words, NULL, NULL)) +
                    refused("wait", onespace_wait(ONESPACE_ANY, NULL, 0)) +
                    refused("kill", onespace_kill(ONESPACE_ROOT, 0)) +
                    refused("pid", onespace_pid(ONESPACE_ROOT)) +
                    refused("export", onespace_export("in child", &number, 4)) +
                    refused("unexport", onespace_unexport("before")) +
                    refused("import", onespace_import(ONESPACE_ROOT, "x", &address, NULL, 0)) +
                    refused("release", onespace_release(ONESPACE_ROOT)) +
                    refused("lookup", onespace_lookup(ONESPACE_ROOT, "main", &address, NULL)) +
                    refused("task", onespace_task(0)) + refused("spawner", onespace_spawner(NULL)) +
                    refused("owner", onespace_owner(&number)) +
                    refused("barrier", onespace_barrier(0)) +
                    (onespace_watch(ONESPACE_ROOT) != NULL);
        printf("%s\n", wrong ? "not refused" : "all refused");
        exit(wrong);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        return 1;
    printf("%s\n", onespace_self() > 0 && onespace_unexport("before") == 0 ? "still member"
                                                                           : "not a member");
    return 0;
}

SCENE(fini)
{
    return printf("%d\n", onespace_fini()) < 0;
}

/* Prints the spawner, and the number that the spawner's pointer leads to. */
SCENE(spawner)
{
    void *data = NULL;
    int spawner = onespace_spawner(&data);
    printf("spawner %d data ", spawner);
    printf(data ? "%d\n" : "none\n", data ? *(int *)data : 0);
    return spawner < 0;
}

SCENE(spawn_for_ever)
{
    for (;;) {
        int id = onespace_spawn(argv[1], argv + 1, NULL, NULL);
        if (id < 0)
            return failed("spawn", id);
        if (onespace_wait(id, NULL, PATIENCE_MS) != id)
            return 1;
    }
}

/* Says "ready" and goes on after a line of input: then a debugger is attached. */
static int await_debugger(void)
{
    printf("ready\n");
    fflush(stdout);
    return getchar() == EOF;
}

/* tests/space/killed_test.cpp goes on behind it, where x86-64 stops; aarch64 stops at it. */
#ifdef __aarch64__
#define BREAKPOINT "brk #0"
#else
#define BREAKPOINT "int3"
#endif

/* debugged-wait PROGRAM: collects what has ended, between two breakpoints. */
SCENE(debugged_wait)
{
    int id = onespace_spawn(argv[1], argv + 1, NULL, NULL);
    if (id < 0)
        return failed("spawn", id);
    const uint32_t *ended = onespace_watch(id);
    while (!__atomic_load_n(ended, __ATOMIC_ACQUIRE))
        usleep(100);
    /* So that the dynamic linker has found the function. */
    if (onespace_wait(id + 1, NULL, 0) != -ECHILD || await_debugger())
        return 1;
    __asm__ volatile(BREAKPOINT);
    int result = onespace_wait(id, NULL, PATIENCE_MS);
    __asm__ volatile(BREAKPOINT);
    return result != id;
}

/* debugged-spawn PROGRAM: between two breakpoints. */
SCENE(debugged_spawn)
{
    if (await_debugger())
        return 1;
    __asm__ volatile(BREAKPOINT);
    int id = onespace_spawn(argv[1], argv + 1, NULL, NULL);
    __asm__ volatile(BREAKPOINT);
    return id < 0;
}

/* hold-often ID COUNT: says how often it could not hold that member's memory. */
SCENE(hold_often)
{
    int id = atoi(argv[1]), failures = 0;
    for (int i = atoi(argv[2]); i > 0; i--)
        if (onespace_hold(id) != 0 || onespace_release(id) != 0)
            failures++;
    return printf("failed %d\n", failures) < 0;
}

/* Ever new names, of which the last few stay for a while. */
SCENE(export_for_ever)
{
    enum { STAY = 20 };
    for (unsigned i = 0;; i++) {
        char name[32], old[32];
        sprintf(name, "name%u", i);
        sprintf(old, "name%u", i - STAY);
        int result = onespace_export(name, &name, sizeof(name));
        if (result == 0 && i >= STAY)
            result = onespace_unexport(old);
        if (result < 0)
            return failed("export", result);
    }
}

/* Copies the space's memory, as it is, again and again. */
SCENE(fork_for_ever)
{
    for (;;) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        if (pid < 0 || waitpid(pid, NULL, 0) != pid)
            return failed("fork", -errno);
    }
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
