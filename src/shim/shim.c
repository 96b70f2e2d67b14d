/* src/shim/shim.c: see shim.h. */
#include "shim/shim.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/host.h"
#include "host/protocol.h"
#include "host/job/report.h"
#include "host/proc_status.h"
#include "shim/binding.h"
#include "shim/request.h"

#define HOST_GONE                                                                                  \
    "the host of the space is gone, and the task with it (was it killed, perhaps for lack of "     \
    "memory? see the kernel's log)"

static int complain(const char *message)
{
    fprintf(stderr, "onespace run: %s\n", message);
    return EXIT_FAILURE;
}

static int complain_of_host(const struct shim_job *job, const char *message)
{
    host_tidy(job->space);
    return complain(message);
}

/* Blocks all signals, so that each can be passed on: those too that this process ignores, since the
 * task may have set a handler meanwhile. Faults of this process kill it nevertheless. */
static int open_signals(sigset_t *old)
{
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, old);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

/* Neither what this process did to itself (SIGPIPE, SIGTTOU, SIGXFSZ) nor the end of a child that
 * the process had before it was `onespace run` is the task's. */
static int is_for_task(const struct signalfd_siginfo *info)
{
    if (info->ssi_signo == SIGCHLD && info->ssi_code > 0)
        return 0;
    return info->ssi_code != SI_USER || info->ssi_pid != (uint32_t)getpid();
}

static int is_stop(int number)
{
    return number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

/* Whether the task neither blocks nor ignores nor catches the signal. */
static int takes_default_action(int task, int number)
{
    static const char *const fields[] = {"SigBlk:", "SigIgn:", "SigCgt:"};
    uint64_t set = 0;
    char *status = proc_status_read(task);
    for (size_t i = 0; status && i < sizeof(fields) / sizeof(fields[0]); i++) {
        const char *value = proc_status_field(status, fields[i]);
        set |= value ? strtoull(value, NULL, 16) : 0;
    }
    free(status);
    return !(set >> (number - 1) & 1);
}

/* Stops as the task does, so that the shell or launcher sees it. As for any program, the kernel
 * ignores the signal in an orphaned process group, where no process could continue this one. */
static void stop_as_asked(int number)
{
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &set, &old);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void forward_signal(int socket, int signals, int task)
{
    struct signalfd_siginfo info;
    if (read(signals, &info, sizeof(info)) != (ssize_t)sizeof(info) || !is_for_task(&info))
        return;
    struct protocol_signal signal = {.number = (int32_t)info.ssi_signo,
                                     .is_queued = info.ssi_code == SI_QUEUE,
                                     .value = info.ssi_ptr};
    int stops = is_stop(signal.number) && takes_default_action(task, signal.number);
    protocol_send(socket, &signal, sizeof(signal));
    if (stops)
        stop_as_asked(signal.number);
}

/* Forwards signals until the task has ended. */
static int await_end(int socket, int signals, struct protocol_reply *reply)
{
    int task = reply->status.pid;
    struct pollfd watched[] = {{socket, POLLIN, 0}, {signals, POLLIN, 0}};
    for (;;) {
        if (poll(watched, 2, -1) < 0)
            continue;
        if (watched[1].revents & POLLIN)
            forward_signal(socket, signals, task);
        if (watched[0].revents)
            return protocol_receive(socket, reply, sizeof(*reply));
    }
}

/* Ends as the task ended. Other signals stay blocked: the task, which they are for, is gone. */
static int end_as(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    int number = WTERMSIG(status);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); /* the task had its core dump */
    signal(number, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    return 128 + number;
}

/* The task gets the affinity of this process. */
static int bind_self(const struct shim_job *job)
{
    char message[256];
    cpu_set_t cpus;
    int number = job->number < 0 ? 0 : job->number, count = job->ntasks < 1 ? 1 : job->ntasks;
    int bound = binding_find(job->bind, number, count, &cpus, message, sizeof(message));
    if (bound < 0)
        return complain(message);
    if (bound > 0 && sched_setaffinity(0, sizeof(cpus), &cpus) != 0)
        return complain("--cpu-bind: none of these CPUs may be used here");
    return 0;
}

static void set_numbers(const struct shim_job *job)
{
    char text[16];
    if (job->number < 0)
        return;
    snprintf(text, sizeof(text), "%d", job->number);
    setenv("ONESPACE_TASK_ID", text, 1);
    snprintf(text, sizeof(text), "%d", job->ntasks);
    setenv("ONESPACE_NTASKS", text, 1);
}

/* A host that is ending closes the connection without a greeting; then the next try finds or starts
 * another one. A socket, or a negated exit status. */
static int find_host(const struct shim_job *job)
{
    char message[512];
    struct protocol_greeting greeting;
    struct shared_header own = protocol_header();
    for (int tries = 0; tries < 20; tries++) {
        int socket = host_connect(job->space, job->launcher, job->ntasks, message, sizeof(message));
        if (socket < 0)
            return -complain(message);
        int result = protocol_receive(socket, &greeting, sizeof(greeting));
        int matches = result == 0 && shared_matches(&greeting.header, &own);
        if (matches && !greeting.message[0])
            return socket;
        close(socket);
        if (matches)
            return -complain(greeting.message);
        if (result == 0) {
            shared_tell("host's protocol", &greeting.header, greeting.file, &own,
                        "this `onespace run`");
            return -126;
        }
    }
    return -complain_of_host(
        job, "the host of the space goes away again and again; see ONESPACE_HOST_LOG in "
             "onespace-run(1)");
}

/* The host's answer to the request; it asks for the descriptors first, unless it refuses. */
static int await_answer(int socket, struct sent_fds *sent, struct protocol_reply *reply)
{
    int result = protocol_receive(socket, reply, sizeof(*reply));
    if (result < 0 || reply->kind != PROTOCOL_SEND)
        return result;
    result = request_send_fds(socket, sent);
    if (result < 0 && result != -EPIPE && result != -ECONNRESET)
        return result;
    return protocol_receive(socket, reply, sizeof(*reply)); /* a refusal, too, is read */
}

/* Sends the job, once only: a host that ends after that may have started the task. */
static int submit(const struct shim_job *job, struct sent_fds *sent, const sigset_t *mask,
                  int *socket_out, struct protocol_reply *reply)
{
    char message[512];
    int socket = find_host(job);
    if (socket < 0)
        return -socket;
    int result = request_send(socket, job, sent, mask);
    int is_refusal = result == -EPIPE || result == -ECONNRESET; /* what was said before is read */
    if (result == 0 || is_refusal)
        result = await_answer(socket, sent, reply);
    if (result == 0) {
        *socket_out = socket;
        return 0;
    }
    close(socket);
    if (result == -EPIPE || result == -ECONNRESET)
        return complain_of_host(job, HOST_GONE);
    snprintf(message, sizeof(message), "cannot hand the task to the host of space %s: %s",
             job->space, strerror(-result));
    return complain(message);
}

int shim_run(const struct shim_job *job)
{
    static struct sent_fds sent;
    struct protocol_reply reply = {0};
    sigset_t old;
    if (bind_self(job) != 0)
        return 2;
    set_numbers(job);
    int socket = -1, signals = open_signals(&old);
    if (signals < 0)
        return complain("cannot watch signals");
    int failed = submit(job, &sent, &old, &socket, &reply);
    if (failed)
        return failed;
    if (reply.error < 0) {
        complain(reply.message);
        return report_exit_code(reply.error);
    }
    if (reply.message[0])
        complain(reply.message);
    request_close_copies(&sent);
    int result = await_end(socket, signals, &reply);
    if (result < 0) {
        complain_of_host(job, HOST_GONE);
        return EXIT_FAILURE;
    }
    if (reply.message[0])
        complain(reply.message);
    report_end(job->stats, job->argv[0], &reply.status, &reply.total);
    return end_as(reply.status.status);
}
