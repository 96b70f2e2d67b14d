/* src/launch/standalone.c: `onespace run` without a launcher: this process is the root of the
 * space. */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/raw.h"
#include "launch/capacity.h"
#include "launch/report.h"
#include "policy/policy.h"
#include "reaper/reaper.h"

/* ---- A process outside the space that reports an OOM kill ----
 *
 * The root shares its tasks' memory and is killed with them. The observer exists only where a
 * control group limits the memory. */

enum { SAMPLE_MS = 1000 };

/* Write end of a pipe to the observer: a byte means a normal end, end-of-file that the root was
 * killed. */
static int observer_pipe = -1;

static _Noreturn void observe(int from, struct oom_watch *watch)
{
    struct pollfd root = {from, POLLIN, 0};
    char message[1024], end;
    for (int events = 0; events <= 0; events = poll(&root, 1, SAMPLE_MS))
        if (events == 0)
            oom_watch_sample(watch);
    if (read(from, &end, 1) == 0 && oom_watch_explain(watch, message, sizeof(message)))
        fprintf(stderr, "onespace run: %s\n", message);
    _exit(0);
}

/* Closes all descriptors but the pipe and standard error. Blocks signals: the root handles those
 * that are sent to the job. */
static void become_observer(int from)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_NAME, "onespace-watch");
    dup2(from, 0);
    dup2(2, 1);
    descriptors_close_range(3, ~0u);
}

static void observer_start(void)
{
    static struct oom_watch watch;
    int ends[2], root = getpid();
    oom_watch_begin(&watch, root);
    if (!oom_watch_is_limited(&watch) || pipe2(ends, O_CLOEXEC) != 0)
        return;
    pid_t observer = fork();
    if (observer == 0) {
        become_observer(ends[0]);
        observe(0, &watch);
    }
    close(ends[0]);
    if (observer < 0) {
        close(ends[1]);
        return;
    }
    observer_pipe = ends[1];
    /* Yama may restrict reading another process's memory. */
    prctl(PR_SET_PTRACER, observer, 0, 0, 0);
}

static void observer_end(void)
{
    if (observer_pipe >= 0 && write(observer_pipe, "", 1) == 1)
        close(observer_pipe);
    observer_pipe = -1;
}

/* ---- Tasks ---- */

enum { GRACE_MS = 3000 };

extern char **environ;

struct tasks {
    _Atomic int ids[ONESPACE_TASKS_MAX]; /* of tasks that have not ended; else 0 */
    int count, alive;
    const char *programs[ONESPACE_TASKS_MAX];
    int failure; /* exit status of the first task that failed, or 0 */
    struct report_total total;
};

static struct tasks tasks;

static void kill_all(int number)
{
    for (int i = 0; i < tasks.count; i++)
        if (tasks.ids[i] > 0)
            (void)!onespace_kill(tasks.ids[i], number);
}

/* By the thread that forwards signals, while the main thread may record that a task has ended. */
static void forward(const siginfo_t *info)
{
    for (int i = 0; i < tasks.count; i++) {
        int id = atomic_load_explicit(&tasks.ids[i], memory_order_relaxed);
        int pid = id > 0 && info->si_code == SI_QUEUE ? onespace_pid(id) : 0;
        if (pid > 0)
            sigqueue(pid, info->si_signo, info->si_value);
        else if (id > 0 && pid == 0)
            (void)!onespace_kill(id, info->si_signo);
    }
}

/* Signals of the terminal reach the tasks directly, which are in this process's group. Signals that
 * are sent to this process alone are forwarded, except those that it caused itself (SIGPIPE,
 * SIGXFSZ). */
static void *forward_signals(void *argument)
{
    const sigset_t *set = argument;
    for (;;) {
        siginfo_t info;
        if (sigwaitinfo(set, &info) <= 0)
            continue;
        int is_own = info.si_code == SI_USER && info.si_pid == getpid();
        if (info.si_code != SI_KERNEL && !is_own)
            forward(&info);
        if (signal_stops(info.si_signo) && !is_own)
            signal_stop_self(info.si_signo);
    }
    return NULL;
}

/* Blocks the signals to forward until all tasks are started: all except faults of this process and
 * SIGCHLD. */
static void hold_signals(sigset_t *set, sigset_t *mask)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGCHLD};
    sigfillset(set);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        sigdelset(set, own[i]);
    pthread_sigmask(SIG_BLOCK, set, mask);
}

static void start_forwarding(sigset_t *set)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, forward_signals, set) == 0)
        pthread_detach(thread);
    else
        pthread_sigmask(SIG_UNBLOCK, set,
                        NULL); /* they will end this process, and the tasks with it */
}

static int spawn_task(const struct run_options *run, const struct run_segment *segment, int number,
                      int total, const sigset_t *mask)
{
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    char message[1024] = "";
    cpu_set_t cpus;
    attr.flags = segment->flags | (run->thread_mode ? ONESPACE_SPAWN_THREAD : 0);
    attr.stack_size = segment->stack_size;
    attr.signal_mask = run->thread_mode ? NULL : mask; /* NULL: block all but faults */
    attr.number = number;
    attr.ntasks = total;
    attr.message = message;
    attr.message_size = sizeof(message);
    int bound = cpu_binding_find(run->bind, number, total, &cpus, message, sizeof(message));
    if (bound > 0) {
        attr.cpus = &cpus;
        attr.cpus_size = sizeof(cpus);
    }
    set_task_numbers(number, total);
    int id = bound < 0 ? bound : onespace_spawn(segment->argv[0], segment->argv, NULL, &attr);
    if (id < 0 && total > 1)
        capacity_explain_error(id, (unsigned)number, (unsigned)total, message, sizeof(message));
    if (id < 0)
        fprintf(stderr, "onespace run: %s\n", message[0] ? message : strerror(-id));
    else
        oversubscription_add(attr.cpus, attr.cpus_size);
    return id;
}

unsigned standalone_count(const struct run_options *run)
{
    unsigned total = 0;
    for (int s = 0; s < run->segment_count; s++)
        total += (unsigned)run->segments[s].count;
    return total;
}

static int spawn_all(const struct run_options *run, const sigset_t *mask)
{
    char message[1024] = "";
    int total = (int)standalone_count(run), number = 0;
    if (total > ONESPACE_TASKS_MAX) {
        fprintf(stderr, "onespace run: %d tasks: one space holds %d\n", total, ONESPACE_TASKS_MAX);
        return -EINVAL;
    }
    int result = capacity_check(CAPACITY_STANDALONE, (unsigned)total, message, sizeof(message));
    if (result < 0) {
        fprintf(stderr, "onespace run: %s\n", message);
        return result;
    }
    for (int s = 0; s < run->segment_count; s++)
        for (int i = 0; i < run->segments[s].count; i++, number++) {
            int id = spawn_task(run, &run->segments[s], number, total, mask);
            if (id < 0)
                return id;
            tasks.ids[tasks.count] = id;
            tasks.programs[tasks.count++] = run->segments[s].argv[0];
            tasks.alive++;
        }
    return 0;
}

static void record_end(const struct run_options *run, const struct onespace_status *status)
{
    static const struct report_total none;
    int code =
        WIFEXITED(status->status) ? WEXITSTATUS(status->status) : 128 + WTERMSIG(status->status);
    char text[1024];
    for (int i = 0; i < tasks.count; i++) {
        if (tasks.ids[i] != status->id)
            continue;
        report_add(&tasks.total, status);
        if (report_departure(status->id, tasks.programs[i], text, sizeof(text)))
            fprintf(stderr, "onespace run: %s\n", text);
        report_end(run->stats, tasks.programs[i], status, tasks.alive == 1 ? &tasks.total : &none);
        if (WIFSIGNALED(status->status) && WTERMSIG(status->status) != SIGPIPE && !tasks.failure)
            fprintf(stderr, "onespace run: task %d (%s, pid %d) was ended by signal %d (%s)\n", i,
                    tasks.programs[i], status->pid, WTERMSIG(status->status),
                    strsignal(WTERMSIG(status->status)));
        tasks.ids[i] = 0;
    }
    tasks.alive--;
    oversubscription_remove();
    if (code && !tasks.failure) {
        tasks.failure = code;
        if (run->kill_on_failure)
            kill_all(SIGTERM);
    }
}

/* Prints once that mappings have run out: some of the tasks may continue without. */
static void report_shortage(void)
{
    static int is_reported;
    char message[1024] = "";
    if (is_reported ||
        !atomic_load_explicit(&space_registry()->mappings_exhausted, memory_order_relaxed))
        return;
    is_reported = 1;
    (void)capacity_describe_mappings((unsigned)tasks.alive, (unsigned)tasks.count, message,
                                     sizeof(message));
    fprintf(stderr, "onespace run: %s\n", message);
}

/* Like onespace_wait for any task; timeout_ms -1: no timeout. */
static int wait_for_any(struct onespace_status *status, int timeout_ms)
{
    enum { WAIT_MS = 1000 }; /* as often as onespace_wait wakes up itself */
    for (;;) {
        int id = onespace_wait(ONESPACE_ANY, status, timeout_ms < 0 ? WAIT_MS : timeout_ms);
        if (id > 0 || id == -ETIMEDOUT)
            report_shortage();
        if (id != -ETIMEDOUT || timeout_ms >= 0)
            return id;
    }
}

/* Milliseconds that tasks have left to end after the first failure; -1: no failure ends them. */
static int grace_left_ms(const struct run_options *run)
{
    static uint64_t deadline;
    if (!run->kill_on_failure || !tasks.failure)
        return -1;
    if (!deadline)
        deadline = futex_deadline(GRACE_MS);
    uint64_t now = futex_now_ns();
    return now < deadline ? (int)((deadline - now) / 1000000) + 1 : 0;
}

static void wait_all(const struct run_options *run)
{
    while (tasks.alive > 0) {
        struct onespace_status status;
        int left = grace_left_ms(run);
        if (left == 0)
            kill_all(SIGKILL);
        int id = wait_for_any(&status, left ? left : -1);
        if (id > 0)
            record_end(run, &status);
        else if (id == -ETIMEDOUT)
            continue;
        else if (id == -EOWNERDEAD) {
            fprintf(stderr,
                    "onespace run: the reaper of the space was killed, and the tasks with it\n");
            tasks.failure = 128 + SIGKILL;
            return;
        } else {
            return;
        }
    }
}

static void add_topology(void)
{
    const char *variables[TOPOLOGY_VARIABLES];
    topology_variables(environ, variables);
    for (int i = 0; i < TOPOLOGY_VARIABLES && variables[i]; i++)
        putenv((char *)variables[i]);
}

int standalone_begin(unsigned ranks)
{
    struct policy policy;
    char forbidden[512];
    if (policy_admit(&policy, forbidden, sizeof(forbidden)) < 0) {
        fprintf(stderr, "onespace run: %s\n", forbidden);
        return EXIT_FAILURE;
    }
    open_standard_descriptors();
    observer_start();
    if (ranks > 1)
        topology_server_start();
    int is_task = onespace_self() >= 0; /* then the space has its server */
    int failed = is_task ? 0 : shm_server_start(ranks);
    if (failed < 0) {
        fprintf(stderr, "onespace run: cannot keep files of /dev/shm in the space: %s\n",
                strerror(-failed));
        return EXIT_FAILURE;
    }
    int self = onespace_init();
    if (self == ONESPACE_ROOT)
        shm_server_publish();
    add_topology();
    if (self == -ENOTSUP)
        fprintf(stderr, "onespace run: valgrind cannot follow processes that share memory: run the "
                        "program itself under it, without onespace\n");
    else if (self < 0)
        fprintf(stderr, "onespace run: cannot make a space: %s (see `onespace doctor`)\n",
                strerror(-self));
    return self < 0 ? EXIT_FAILURE : 0;
}

int standalone_run(const struct run_options *run, int *completed)
{
    static sigset_t forwarded, mask;
    *completed = 0;
    mpi_defaults_set(standalone_count(run));
    if (!run->thread_mode)
        hold_signals(&forwarded, &mask);
    int failed = spawn_all(run, &mask);
    if (failed < 0 && run->thread_mode)
        return report_exit_code(failed); /* the tasks end with this process */
    if (!run->thread_mode)               /* threads share this process's signals */
        start_forwarding(&forwarded);
    if (failed < 0) {
        tasks.failure = report_exit_code(failed);
        kill_all(SIGKILL);
        wait_all(run);
        return report_exit_code(failed);
    }
    wait_all(run);
    *completed = 1;
    return tasks.failure;
}

/* The tasks are the reaper's children. Waiting for the reaper makes their CPU time this process's
 * children's, which `time` and batch systems ask for; tasks that live on keep theirs. */
void standalone_end(int completed)
{
    if (completed)
        (void)reaper_stop(space_registry());
    observer_end();
}
