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

static int split_texts(struct job *job)
{
    const struct protocol_request *request = &job->request;
    char *at = job->texts, *end = at + request->text_size;
    job->argv = calloc(request->argc + 1u, sizeof(char *));
    job->envp = calloc(request->envc + 1u, sizeof(char *));
    if (!job->argv || !job->envp)
        return -ENOMEM;
    for (uint32_t i = 0; i < request->argc + request->envc; i++) {
        char *zero = memchr(at, 0, (size_t)(end - at));
        if (!zero)
            return -EPROTO;
        *(i < request->argc ? &job->argv[i] : &job->envp[i - request->argc]) = at;
        at = zero + 1;
    }
    return 0;
}

int job_receive(struct job *job, int socket)
{
    struct protocol_request *request = &job->request;
    int result = protocol_receive(socket, request, sizeof(*request));
    if (result < 0)
        return result;
    struct shared_header own = protocol_header();
    if (!shared_matches(&request->header, &own) || request->fd_count > PROTOCOL_FDS_MAX ||
        request->text_size > PROTOCOL_TEXT_MAX || request->argc == 0 ||
        request->argc > request->text_size || request->envc > request->text_size ||
        request->cpus_size > sizeof(request->cpus))
        return -EPROTO;
    result = protocol_receive_fds(socket, job->fds, job->numbers, request->fd_count);
    job->texts = result < 0 ? NULL : malloc(request->text_size + 1u);
    if (!job->texts)
        return result < 0 ? result : -ENOMEM;
    result = protocol_receive(socket, job->texts, request->text_size);
    return result < 0 ? result : split_texts(job);
}

void job_free(struct job *job)
{
    for (uint32_t i = 0; i < job->request.fd_count && i < PROTOCOL_FDS_MAX; i++)
        if (job->fds[i] >= 0)
            close(job->fds[i]);
    free(job->texts);
    free(job->argv);
    free(job->envp);
    free(job->change.has.groups);
    free(job->change.wants.groups);
    free(job);
}

static const char *search_path(char **envp)
{
    for (; *envp; envp++)
        if (strncmp(*envp, "PATH=", 5) == 0)
            return *envp + 5;
    return NULL;
}

static void map_fds(struct job *job)
{
    job->directory = -1;
    for (uint32_t i = 0; i < job->request.fd_count; i++) {
        if (job->numbers[i] < 0)
            job->directory = job->fds[i];
        else
            job->map[job->map_count++] = (struct onespace_fd_map){job->fds[i], job->numbers[i]};
    }
}

static void set_of(uint64_t signals, sigset_t *set)
{
    sigemptyset(set);
    for (int signal = 1; signal <= 64; signal++)
        if (signals >> (signal - 1) & 1)
            sigaddset(set, signal);
}

static int spawn_with_identity(struct job *job, struct onespace_spawn_attr *attr)
{
    /* Before its program, which the shim waits for. */
    attr->before = identity_assume;
    attr->before_argument = &job->change;
    int result = onespace_spawn(job->argv[0], job->argv, job->envp, attr);
    if (job->change.failed)
        snprintf(attr->message, attr->message_size,
                 "the host of the space cannot give its tasks the %s that this process has (%s): "
                 "use another --space, or start all of the space with the same",
                 job->change.failed, strerror(-result));
    return job->change.failed ? -ECONNREFUSED : result;
}

int job_spawn(struct job *job, char *message, size_t size)
{
    const struct protocol_request *request = &job->request;
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    map_fds(job);
    attr.flags = request->flags | ONESPACE_SPAWN_CLOSE_FDS | ONESPACE_SPAWN_GROUP;
    attr.directory = job->directory;
    attr.umask = request->umask;
    attr.nice = request->nice;
    attr.number = request->number;
    attr.ntasks = request->ntasks;
    attr.fds = job->map;
    attr.fd_count = job->map_count;
    attr.stack_size = request->stack_size;
    attr.cpus = request->cpus_size ? (const cpu_set_t *)request->cpus : NULL;
    attr.cpus_size = request->cpus_size;
    attr.limits = request->limits;
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
    int id = spawn_with_identity(job, &attr);
    if (request->policy_mode)
        syscall(SYS_set_mempolicy, 0, NULL, 0);
    return id;
}
