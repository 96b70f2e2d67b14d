/* bench/lib/workers.c: starts the workers of a benchmark as threads, tasks or processes. */
#include "workers.h"

#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "bench.h"
#include "onespace.h"

static const char task_mark[] = "--worker-task";
static const char *const names[WORKER_KINDS] = {"threads", "tasks", "processes"};

static struct worker {
    int number, id; /* id: of a task or a process */
    pthread_t thread;
    struct workers *workers;
} started[WORKERS_MAX];
static int started_count;
/* In a task or process: the process that started it, which may wait in a barrier. */
static int parent;

void worker_fail(const char *what, int error)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(error));
    if (parent)
        kill(parent, SIGTERM);
    exit(1);
}

enum worker_kind worker_kind_by_name(const char *name)
{
    int kind = 0;
    while (kind < WORKER_KINDS && strcmp(name, names[kind]) != 0)
        kind++;
    return (enum worker_kind)kind;
}

void *workers_allocate(size_t size)
{
    void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        worker_fail("no memory for the workers", errno);
    return block;
}

/* A task's arguments: the mark, its number and the block's address. */
void workers_enter(int argc, char **argv)
{
    if (argc != 4 || strcmp(argv[1], task_mark) != 0)
        return;
    struct workers *workers = (struct workers *)(uintptr_t)strtoumax(argv[3], NULL, 16);
    parent = workers->parent;
    worker_run(atoi(argv[2]), workers);
    exit(0);
}

static void *thread_main(void *argument)
{
    struct worker *worker = argument;
    worker_run(worker->number, worker->workers);
    return NULL;
}

static void start_thread(struct worker *worker)
{
    int error = pthread_create(&worker->thread, NULL, thread_main, worker);
    if (error)
        worker_fail("pthread_create", error);
}

static void start_task(struct worker *worker)
{
    char program[4096], number[16], block[32], message[256] = "";
    ssize_t size = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (size < 0)
        worker_fail("/proc/self/exe", errno);
    program[size] = 0;
    snprintf(number, sizeof(number), "%d", worker->number);
    snprintf(block, sizeof(block), "%" PRIxPTR, (uintptr_t)worker->workers);
    char *argv[] = {program, (char *)task_mark, number, block, NULL};
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    attr.message = message;
    attr.message_size = sizeof(message);
    worker->id = onespace_spawn(program, argv, NULL, &attr);
    if (worker->id < 0)
        worker_fail(*message ? message : "onespace_spawn", -worker->id);
}

static void start_process(struct worker *worker)
{
    worker->id = fork();
    if (worker->id < 0)
        worker_fail("fork", errno);
    if (worker->id > 0)
        return;
    parent = worker->workers->parent;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no worker waits in a barrier without it */
    if (getppid() == parent)
        worker_run(worker->number, worker->workers);
    _exit(0);
}

void workers_start(enum worker_kind kind, int count, struct workers *workers)
{
    if (count < 1 || count > WORKERS_MAX)
        worker_fail("the number of workers", EINVAL);
    workers->kind = kind;
    workers->count = started_count = count;
    workers->parent = getpid();
    if (kind == WORKER_TASKS) {
        int error = onespace_init();
        if (error < 0)
            worker_fail("onespace_init", -error);
    }
    fflush(stdout); /* else children would print it again */
    for (int i = 0; i < count; i++) {
        started[i] = (struct worker){.number = i, .workers = workers};
        if (kind == WORKER_THREADS)
            start_thread(&started[i]);
        else if (kind == WORKER_TASKS)
            start_task(&started[i]);
        else
            start_process(&started[i]);
    }
}

/* The status, in waitpid's encoding. */
static int end_worker(const struct worker *worker)
{
    struct onespace_status task;
    int status = 0, error = 0;
    if (worker->workers->kind == WORKER_THREADS)
        error = pthread_join(worker->thread, NULL);
    else if (worker->workers->kind == WORKER_PROCESSES)
        error = waitpid(worker->id, &status, 0) < 0 ? errno : 0;
    else if ((error = -onespace_wait(worker->id, &task, -1)) < 0)
        status = task.status;
    if (error > 0)
        worker_fail("waiting for a worker", error);
    return status;
}

void workers_join(void)
{
    for (int i = 0; i < started_count; i++) {
        if (end_worker(&started[i]) == 0)
            continue;
        fprintf(stderr, "%s: worker %d failed\n", program_invocation_short_name, i);
        exit(1);
    }
    started_count = 0;
}

int worker_pid(int number)
{
    const struct worker *worker = &started[number];
    if (worker->workers->kind == WORKER_TASKS)
        return onespace_pid(worker->id);
    return worker->workers->kind == WORKER_PROCESSES ? worker->id : getpid();
}

/* A worker that has ended, or -1. */
static int ended_worker(const struct workers *workers)
{
    for (int i = 0; i < started_count && workers->kind != WORKER_THREADS; i++) {
        siginfo_t info = {0};
        const uint32_t *ended =
            workers->kind == WORKER_TASKS ? onespace_watch(started[i].id) : NULL;
        if (workers->kind == WORKER_PROCESSES)
            waitid(P_PID, (id_t)started[i].id, &info, WEXITED | WNOHANG | WNOWAIT);
        if (info.si_pid || (ended && *(const volatile uint32_t *)ended))
            return i;
    }
    return -1;
}

void workers_barrier(struct workers *workers)
{
    uint32_t completed = atomic_load_explicit(&workers->barriers, memory_order_relaxed);
    struct timespec second = {1, 0};
    if (atomic_fetch_add_explicit(&workers->arrived, 1, memory_order_acq_rel) ==
        (uint32_t)workers->count) { /* the workers and the parent */
        atomic_store_explicit(&workers->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&workers->barriers, completed + 1, memory_order_release);
        syscall(SYS_futex, &workers->barriers, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        return;
    }
    while (atomic_load_explicit(&workers->barriers, memory_order_acquire) == completed) {
        if (syscall(SYS_futex, &workers->barriers, FUTEX_WAIT, completed, &second, NULL, 0) == 0 ||
            parent)
            continue;
        int ended = ended_worker(workers); /* timed out after a second, or raced with the wake-up */
        /* A worker that has arrived cannot end before the barrier completes. */
        if (ended >= 0 &&
            atomic_load_explicit(&workers->barriers, memory_order_acquire) == completed) {
            fprintf(stderr, "%s: worker %d ended too early\n", program_invocation_short_name,
                    ended);
            exit(1);
        }
    }
}

/* Inherited from the program, which binds itself to nothing, the CPUs are the same in all workers.
 */
void worker_bind(int number)
{
    bench_bind(bench_cpu(number));
}
