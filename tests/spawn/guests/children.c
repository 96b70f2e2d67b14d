/* tests/spawn/guests/children.c: programs with children and threads of their own, by every way
 * there is. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/scene.h"

extern char **environ;

static int say_status(int status)
{
    if (WIFSIGNALED(status))
        return printf("signal %d\n", WTERMSIG(status)) < 0;
    return printf("exit %d\n", WEXITSTATUS(status)) < 0;
}

static int wait_and_say(pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return printf("no child: %s\n", strerror(errno)), 1;
    return say_status(status);
}

/* The child allocates in all ways, runs threads and writes to its own copy of the memory. */
static void *allocate(void *argument)
{
    for (int i = 1; i < 200; i++) {
        char *piece = malloc((size_t)i * 5000);
        if (!piece)
            return NULL;
        memset(piece, i, (size_t)i * 5000);
        free(piece);
    }
    return argument;
}

SCENE(fork)
{
    static int number = 1;
    char *heap = strcpy(malloc(100000), "parent");
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        void *done = NULL;
        number = 2;
        strcpy(heap, "child");
        char *map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        map[12345] = 1;
        if (!allocate(&number) || pthread_create(&thread, NULL, allocate, &number) != 0 ||
            pthread_join(thread, &done) != 0 || !done || munmap(map, 1 << 20) != 0)
            _exit(1);
        exit(40 + number);
    }
    int result = wait_and_say(child);
    printf("%s %d\n", heap, number);
    return result || !allocate(heap);
}

SCENE(fork_grandchild)
{
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        int status;
        if (grandchild == 0)
            exit(allocate("") ? 5 : 1);
        waitpid(grandchild, &status, 0);
        exit(WEXITSTATUS(status) + 1);
    }
    return wait_and_say(child);
}

SCENE(fork_crash)
{
    pid_t child = fork();
    if (child == 0)
        raise(SIGSEGV);
    return wait_and_say(child);
}

SCENE(vfork)
{
    for (volatile int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execlp("sh", "sh", "-c", "exit 21", (char *)NULL);
            _exit(127);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 21 << 8)
            return printf("round %d: %x\n", i, (unsigned)status), 1;
    }
    pid_t child = vfork();
    if (child == 0) {
        execl("/no/such/program", "program", (char *)NULL);
        _exit(99);
    }
    return wait_and_say(child);
}

SCENE(posix_spawn)
{
    pid_t child;
    char *words[] = {"sh", "-c", "exit 22", NULL};
    for (int i = 0; i < 20; i++) {
        int status, result = posix_spawnp(&child, "sh", NULL, NULL, words, environ);
        if (result || waitpid(child, &status, 0) != child || status != 22 << 8)
            return printf("round %d: %s\n", i, strerror(result)), 1;
    }
    printf("%s\n", strerror(posix_spawn(&child, "/no/such/program", NULL, NULL, words, environ)));
    return 0;
}

SCENE(system)
{
    return say_status(system("exit 23"));
}

SCENE(popen)
{
    char line[64] = "";
    FILE *pipe = popen("echo from the pipe; exit 24", "r");
    if (!pipe || !fgets(line, sizeof(line), pipe))
        return 1;
    printf("%s", line);
    return say_status(pclose(pipe));
}

static void *exec_now(void *argument)
{
    (void)argument;
    execlp("echo", "echo", "from a thread", (char *)NULL);
    return NULL;
}

static void *exec_nothing(void *argument)
{
    execl(argument, argument, (char *)NULL);
    pause();
    return NULL;
}

/* exec-twice PROGRAM: a thread executes a program that there is not, and another one a bit later.
 */
SCENE(exec_twice)
{
    pthread_t thread;
    printf("execve\n");
    fflush(stdout);
    pthread_create(&thread, NULL, exec_nothing, (char[]){"/no/such/program"});
    usleep(100000);
    execl(argv[1], argv[1], (char *)NULL);
    return 1;
}

SCENE(exec_from_thread)
{
    pthread_t thread;
    pthread_create(&thread, NULL, exec_now, NULL);
    pthread_join(thread, NULL);
    return 1;
}

/* Forks while other threads change what the child will need. */
enum { HANG_MS = 180000 };

static volatile int stop;

static void *set_handlers(void *argument)
{
    while (!stop) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        char *hint =
            mmap((void *)0x6f0000000000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(hint, 4096);
    }
    return argument;
}

SCENE(fork_beside_threads)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, set_handlers, NULL);
    for (int i = 0; i < 300; i++) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            signal(SIGBUS, SIG_DFL);
            _exit(allocate("") ? 0 : 1);
        }
        /* A lock that stayed with one of the parent's threads would hang the child. */
        int status, waited = 0;
        while (waitpid(child, &status, WNOHANG) == 0 && waited++ < HANG_MS)
            usleep(1000);
        if (waited > HANG_MS) {
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
            return printf("round %d: hangs\n", i), 1;
        }
        if (status != 0)
            return printf("round %d: status %x\n", i, (unsigned)status), 1;
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("fine\n");
    return 0;
}

/* A robust mutex between threads. */
static pthread_mutex_t mutex, later;

static void *die_with_lock(void *argument)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&later);
    pthread_mutex_unlock(&later);
    return argument;
}

SCENE(robust)
{
    pthread_t thread;
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attr);
    pthread_mutex_init(&later, &attr);
    for (int i = 0; i < 3; i++) {
        pthread_create(&thread, NULL, die_with_lock, NULL);
        pthread_join(thread, NULL);
        int result = pthread_mutex_lock(&mutex);
        printf("%s\n", result == EOWNERDEAD ? "owner died" : strerror(result));
        pthread_mutex_consistent(&mutex);
        /* On the main thread, whose list has our node too. */
        pthread_mutex_lock(&later);
        pthread_mutex_unlock(&mutex);
        pthread_mutex_unlock(&later);
    }
    return 0;
}

/* A robust mutex between processes, whose owner's main thread dies with it. */
SCENE(robust_shared)
{
    pthread_mutex_t *shared =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(shared, &attr);
    pid_t child = fork();
    if (child == 0) {
        pthread_mutex_lock(shared);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    int result = pthread_mutex_lock(shared);
    printf("%s\n", result == EOWNERDEAD ? "owner died" : strerror(result));
    return 0;
}

/* Kills a vfork child whenever there is one. */
static volatile pid_t to_kill;

static void *kill_children(void *argument)
{
    while (!stop) {
        pid_t pid = to_kill;
        if (pid > 0) {
            usleep((useconds_t)rand() % 300);
            kill(pid, SIGKILL);
            while (to_kill == pid)
                usleep(50);
        }
    }
    return argument;
}

static void use_records(void)
{
    struct sigaction action;
    sigaction(SIGSEGV, NULL, &action);
    char *hint = mmap((void *)0x6f0000000000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(hint, 4096);
}

/* The children are killed at any instruction. The alarm ends a parent that hangs. */
SCENE(vfork_killed)
{
    pthread_t killer;
    alarm(400);
    pthread_create(&killer, NULL, kill_children, NULL);
    for (volatile int i = 0; i < 100; i++) {
        pid_t child = vfork();
        if (child == 0) {
            for (to_kill = getpid();;) // NOLINT(clang-analyzer-unix.Vfork): the point
                use_records();
        }
        to_kill = 0;
        waitpid(child, NULL, 0);
        use_records();
    }
    stop = 1;
    pthread_join(killer, NULL);
    printf("goes on\n");
    return 0;
}

/* Its vfork child kills it, and executes another program when there is a line to read. */
SCENE(vfork_outlives)
{
    pid_t parent = getpid();
    if (vfork() == 0) {
        char byte;
        kill(parent, SIGKILL); // NOLINT(clang-analyzer-unix.Vfork): the point
        if (read(0, &byte, 1) == 1)
            execlp("echo", "echo", "executed", (char *)NULL);
        _exit(127);
    }
    return 1;
}

/* real-time: threads of different priority on one CPU use the same records. 77: not permitted. */
static int cpu;

static int be_real_time(int priority)
{
    cpu_set_t set;
    struct sched_param parameter = {.sched_priority = priority};
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0 &&
           sched_setscheduler(0, SCHED_FIFO, &parameter) == 0;
}

static void *use_records_often(void *argument)
{
    struct sigaction action;
    if (!be_real_time(1))
        return argument;
    while (!stop) {
        for (int i = 0; i < 200 && !stop; i++)
            sigaction(SIGSEGV, NULL, &action);
        usleep(100);
    }
    return NULL;
}

static void *interrupt_the_other(void *argument)
{
    struct sigaction action;
    if (!be_real_time(2))
        return argument;
    for (int i = 0; i < 5000; i++) {
        usleep(1 + (useconds_t)rand() % 50);
        sigaction(SIGSEGV, NULL, &action);
    }
    return NULL;
}

SCENE(real_time)
{
    pthread_t low, high;
    void *low_failed, *high_failed;
    cpu = sched_getcpu();
    alarm(180);
    pthread_create(&low, NULL, use_records_often, &cpu);
    pthread_create(&high, NULL, interrupt_the_other, &cpu);
    pthread_join(high, &high_failed);
    stop = 1;
    pthread_join(low, &low_failed);
    if (low_failed || high_failed)
        return 77;
    printf("both ran\n");
    return 0;
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
