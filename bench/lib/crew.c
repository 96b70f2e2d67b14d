/* bench/lib/crew.c: starts the workers of a benchmark as threads, tasks or processes. */
#include "crew.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "onespace.h"

static const char task_mark[] = "--crew-task";
static const char *const names[CREW_KINDS] = {"threads", "tasks", "processes"};

static struct worker {
    int number, id; /* id: of a task or a process */
    pthread_t thread;
    struct crew *crew;
} workers[CREW_MAX];
static int worker_count;
static int leader; /* in a task or process: its program's process, which may wait in a barrier */

void crew_fail(const char *what, int error)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(error));
    if (leader)
        kill(leader, SIGTERM);
    exit(1);
}

enum crew_kind crew_kind_of(const char *name)
{
    int kind = 0;
    while (kind < CREW_KINDS && strcmp(name, names[kind]) != 0)
        kind++;
    return (enum crew_kind)kind;
}

void *crew_block(size_t size)
{
    void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        crew_fail("no memory for the workers", errno);
    return block;
}

/* A task's arguments: the mark, its number and the block's address. */
void crew_enter(int argc, char **argv)
{
    if (argc != 4 || strcmp(argv[1], task_mark) != 0)
        return;
    struct crew *crew = (struct crew *)(uintptr_t)strtoumax(argv[3], NULL, 16);
    leader = crew->leader;
    crew_work(atoi(argv[2]), crew);
    exit(0);
}

static void *thread_main(void *argument)
{
    struct worker *worker = argument;
    crew_work(worker->number, worker->crew);
    return NULL;
}

static void start_thread(struct worker *worker)
{
    int error = pthread_create(&worker->thread, NULL, thread_main, worker);
    if (error)
        crew_fail("pthread_create", error);
}

static void start_task(struct worker *worker)
{
    char program[4096], number[16], block[32], message[256] = "";
    ssize_t size = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (size < 0)
        crew_fail("/proc/self/exe", errno);
    program[size] = 0;
    snprintf(number, sizeof(number), "%d", worker->number);
    snprintf(block, sizeof(block), "%" PRIxPTR, (uintptr_t)worker->crew);
    char *argv[] = {program, (char *)task_mark, number, block, NULL};
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    attr.message = message;
    attr.message_size = sizeof(message);
    worker->id = onespace_spawn(program, argv, NULL, &attr);
    if (worker->id < 0)
        crew_fail(*message ? message : "onespace_spawn", -worker->id);
}

static void start_process(struct worker *worker)
{
    worker->id = fork();
    if (worker->id < 0)
        crew_fail("fork", errno);
    if (worker->id > 0)
        return;
    leader = worker->crew->leader;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no worker waits in a barrier without it */
    if (getppid() == leader)
        crew_work(worker->number, worker->crew);
    _exit(0);
}

void crew_start(enum crew_kind kind, int count, struct crew *crew)
{
    if (count < 1 || count > CREW_MAX)
        crew_fail("the number of workers", EINVAL);
    crew->kind = kind;
    crew->count = worker_count = count;
    crew->leader = getpid();
    if (kind == CREW_TASKS) {
        int error = onespace_init();
        if (error < 0)
            crew_fail("onespace_init", -error);
    }
    fflush(stdout); /* else children would print it again */
    for (int i = 0; i < count; i++) {
        workers[i] = (struct worker){.number = i, .crew = crew};
        if (kind == CREW_THREADS)
            start_thread(&workers[i]);
        else if (kind == CREW_TASKS)
            start_task(&workers[i]);
        else
            start_process(&workers[i]);
    }
}

/* The status, in waitpid's encoding. */
static int end_worker(const struct worker *worker)
{
    struct onespace_status task;
    int status = 0, error = 0;
    if (worker->crew->kind == CREW_THREADS)
        error = pthread_join(worker->thread, NULL);
    else if (worker->crew->kind == CREW_PROCESSES)
        error = waitpid(worker->id, &status, 0) < 0 ? errno : 0;
    else if ((error = -onespace_wait(worker->id, &task, -1)) < 0)
        status = task.status;
    if (error > 0)
        crew_fail("waiting for a worker", error);
    return status;
}

void crew_end(void)
{
    for (int i = 0; i < worker_count; i++) {
        if (end_worker(&workers[i]) == 0)
            continue;
        fprintf(stderr, "%s: worker %d failed\n", program_invocation_short_name, i);
        exit(1);
    }
    worker_count = 0;
}

int crew_pid(int number)
{
    const struct worker *worker = &workers[number];
    if (worker->crew->kind == CREW_TASKS)
        return onespace_pid(worker->id);
    return worker->crew->kind == CREW_PROCESSES ? worker->id : getpid();
}

/* A worker that has ended, or -1. */
static int ended_worker(const struct crew *crew)
{
    for (int i = 0; i < worker_count && crew->kind != CREW_THREADS; i++) {
        siginfo_t info = {0};
        const uint32_t *ended = crew->kind == CREW_TASKS ? onespace_watch(workers[i].id) : NULL;
        if (crew->kind == CREW_PROCESSES)
            waitid(P_PID, (id_t)workers[i].id, &info, WEXITED | WNOHANG | WNOWAIT);
        if (info.si_pid || (ended && *(const volatile uint32_t *)ended))
            return i;
    }
    return -1;
}

void crew_barrier(struct crew *crew)
{
    uint32_t completed = atomic_load_explicit(&crew->barriers, memory_order_relaxed);
    struct timespec second = {1, 0};
    if (atomic_fetch_add_explicit(&crew->arrived, 1, memory_order_acq_rel) ==
        (uint32_t)crew->count) { /* the workers and the leader */
        atomic_store_explicit(&crew->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&crew->barriers, completed + 1, memory_order_release);
        syscall(SYS_futex, &crew->barriers, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        return;
    }
    while (atomic_load_explicit(&crew->barriers, memory_order_acquire) == completed) {
        if (syscall(SYS_futex, &crew->barriers, FUTEX_WAIT, completed, &second, NULL, 0) == 0 ||
            leader)
            continue;
        int ended = ended_worker(crew); /* timed out after a second, or raced with the wake-up */
        /* A worker that has arrived cannot end before the barrier completes. */
        if (ended >= 0 &&
            atomic_load_explicit(&crew->barriers, memory_order_acquire) == completed) {
            fprintf(stderr, "%s: worker %d ended too early\n", program_invocation_short_name,
                    ended);
            exit(1);
        }
    }
}

void crew_bind(int number)
{
    cpu_set_t own; /* as inherited from the program, which binds itself to nothing */
    if (sched_getaffinity(0, sizeof(own), &own) != 0)
        crew_fail("sched_getaffinity", errno);
    int wanted = number % CPU_COUNT(&own), cpu = 0;
    for (; !CPU_ISSET(cpu, &own) || wanted-- > 0; cpu++)
        ;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    if (sched_setaffinity(0, sizeof(own), &own) != 0)
        crew_fail("sched_setaffinity", errno);
}
