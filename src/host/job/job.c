/* src/host/job/job.c: see job.h. */
#include "host/job/job.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/futex.h"

static const char *search_path(char **envp)
{
    for (; *envp; envp++)
        if (strncmp(*envp, "PATH=", 5) == 0)
            return *envp + 5;
    return NULL;
}

static void set_of(uint64_t signals, sigset_t *set)
{
    sigemptyset(set);
    for (int signal = 1; signal <= 64; signal++)
        if (signals >> (signal - 1) & 1)
            sigaddset(set, signal);
}

int job_ask(const struct job *job)
{
    const struct protocol_reply reply = {.kind = PROTOCOL_SEND};
    return protocol_send(job->socket, &reply, sizeof(reply));
}

enum { TASKS_SOCKET = 0 };

/* Runs as the task. Its privileges last: they may be needed for what comes before. */
static int become(void *argument)
{
    struct job *job = argument;
    int result = descriptors_assume(&job->descriptors, TASKS_SOCKET);
    return result < 0 ? result : identity_assume(&job->change);
}

static void say_descriptors(const struct job *job, int error, char *message, size_t size)
{
    const struct descriptors *descriptors = &job->descriptors;
    if (error == -EMFILE)
        snprintf(message, size,
                 "%s: cannot %s (%s): it inherits %u; raise the hard limit (ulimit -Hn) where the "
                 "space is started",
                 job->argv[0], descriptors->failed, strerror(-error), descriptors->count);
    else
        snprintf(message, size, "%s: cannot %s (%s)", job->argv[0], descriptors->failed,
                 strerror(-error));
}

static int spawn_and_become(struct job *job, struct onespace_spawn_attr *attr)
{
    /* Before its program, which the shim waits for. */
    attr->before = become;
    attr->before_argument = job;
    int result = onespace_spawn(job->argv[0], job->argv, job->envp, attr);
    if (job->descriptors.failed)
        say_descriptors(job, result, attr->message, attr->message_size);
    if (job->change.failed)
        snprintf(attr->message, attr->message_size,
                 "the host of the space cannot give its tasks the %s that this process has (%s): "
                 "use another --space, or start all of the space with the same",
                 job->change.failed, strerror(-result));
    return job->change.failed ? -ECONNREFUSED : result;
}

/* The limit on descriptors is the host's until the task has them. */
static void set_limits(struct job *job, struct onespace_spawn_attr *attr)
{
    struct rlimit *limits = job->change.wants.limits;
    job->descriptors.limit = limits[RLIMIT_NOFILE];
    (void)getrlimit(RLIMIT_NOFILE, &limits[RLIMIT_NOFILE]);
    attr->limits = limits;
}

static int spawn(struct job *job, char *message, size_t size)
{
    const struct protocol_request *request = &job->request;
    const struct identity *identity = &job->change.wants;
    const struct onespace_fd_map socket = {job->socket, TASKS_SOCKET};
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    attr.flags = request->flags | ONESPACE_SPAWN_CLOSE_FDS | ONESPACE_SPAWN_GROUP;
    attr.directory = job->directory;
    attr.umask = identity->umask;
    attr.nice = identity->nice;
    attr.number = request->number;
    attr.ntasks = request->ntasks;
    attr.fds = &socket;
    attr.fd_count = 1;
    attr.stack_size = request->stack_size;
    attr.cpus = identity->cpus_size ? (const cpu_set_t *)identity->cpus : NULL;
    attr.cpus_size = identity->cpus_size;
    set_limits(job, &attr);
    sigset_t mask, ignored;
    set_of(request->signal_mask, &mask);
    set_of(request->ignored, &ignored);
    attr.signal_mask = &mask;
    attr.ignored_signals = &ignored;
    attr.path = search_path(job->envp);
    attr.message = message;
    attr.message_size = size;
    /* Tasks inherit the memory policy of the thread that spawns them. */
    if (request->policy_mode)
        syscall(SYS_set_mempolicy, request->policy_mode, request->policy_nodes, 1024);
    int id = spawn_and_become(job, &attr);
    if (request->policy_mode)
        syscall(SYS_set_mempolicy, 0, NULL, 0);
    return id;
}

int job_spawn(struct job *job, char *message, size_t size)
{
    int32_t number;
    job->descriptors.deadline = futex_deadline(DESCRIPTORS_TIMEOUT_MS);
    int result = job->request.has_directory
                     ? protocol_receive_fds(job->socket, &job->directory, &number, 1,
                                            job->descriptors.deadline)
                     : 0;
    if (result == 0)
        result = spawn(job, message, size);
    if (job->directory >= 0)
        close(job->directory);
    job->directory = -1;
    return result;
}
