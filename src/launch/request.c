/* src/launch/request.c: one shim's request, from its socket to the task that runs. */
#include "launch/host.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/futex.h"
#include "launch/launch.h"

/* ---- Receiving: the input may be anything (tests/fuzz/request_fuzz.c) ---- */

/* Points argv and envp into the text. */
static int split_text(struct request *request)
{
    const struct protocol_request *head = &request->head;
    char *at = request->text, *end = at + head->text_size;
    request->argv = calloc(head->argc + 1u, sizeof(char *));
    request->envp = calloc(head->envc + TOPOLOGY_VARIABLES + 1u, sizeof(char *));
    if (!request->argv || !request->envp)
        return -ENOMEM;
    for (uint32_t i = 0; i < head->argc + head->envc; i++) {
        char *zero = memchr(at, 0, (size_t)(end - at));
        if (!zero)
            return -EPROTO;
        *(i < head->argc ? &request->argv[i] : &request->envp[i - head->argc]) = at;
        at = zero + 1;
    }
    return 0;
}

/* The head has arrived: checks it and allocates memory for the rest. */
static int check_head(struct request *request)
{
    const struct protocol_request *head = &request->head;
    struct shared_header own = protocol_header();
    if (!shared_header_matches(&head->header, &own) || head->fd_count > PROTOCOL_FDS_MAX ||
        head->text_size > PROTOCOL_TEXT_MAX || head->argc == 0 || head->argc > head->text_size ||
        head->envc > head->text_size)
        return -EPROTO;
    request->descriptors.count = head->fd_count;
    request->descriptors.fds = calloc(head->fd_count + 1u, sizeof(int));
    request->descriptors.numbers = calloc(head->fd_count + 1u, sizeof(int32_t));
    request->text = malloc(head->text_size + 1u);
    if (!request->text || !request->descriptors.fds || !request->descriptors.numbers)
        return -ENOMEM;
    return 0;
}

int request_receive(struct request *request, int socket)
{
    size_t head_size = sizeof(request->head);
    while (request->received < head_size) {
        ssize_t got = protocol_receive_some(socket, (char *)&request->head + request->received,
                                            head_size - request->received);
        if (got <= 0)
            return (int)got;
        request->received += (size_t)got;
        int result = request->received == head_size ? check_head(request) : 0;
        if (result < 0)
            return result;
    }
    size_t size = request->head.text_size;
    while (request->received - head_size < size) {
        size_t done = request->received - head_size;
        ssize_t got = protocol_receive_some(socket, request->text + done, size - done);
        if (got <= 0)
            return (int)got;
        request->received += (size_t)got;
    }
    int result = split_text(request);
    return result < 0 ? result : 1;
}

void request_free(struct request *request)
{
    free(request->descriptors.fds);
    free(request->descriptors.numbers);
    free(request->text);
    free(request->argv);
    free(request->envp);
    free(request->change.has.groups);
    free(request->change.wants.groups);
    free(request);
}

int request_ask_fds(const struct request *request)
{
    const struct protocol_reply reply = {.kind = PROTOCOL_SEND};
    return protocol_send(request->socket, &reply, sizeof(reply));
}

/* ---- As the new task: its descriptors ---- */

static int fail(struct descriptors *descriptors, const char *step, int error)
{
    descriptors->failed = step;
    return error;
}

/* The index, from `from` on, of the received descriptor that occupies this number; or `count`. */
static unsigned occupant_of(const struct descriptors *descriptors, unsigned from, int number)
{
    while (from < descriptors->count && descriptors->fds[from] != number)
        from++;
    return from;
}

/* Moves a received descriptor to its number. Moving needs only one free number; a program may have
 * as many descriptors as its limit allows. */
static int move_to_number(struct descriptors *descriptors, unsigned index)
{
    int *fds = descriptors->fds, number = descriptors->numbers[index];
    if (fds[index] == number)
        return fcntl(number, F_SETFD, 0) < 0 ? -errno : 0; /* it was received close-on-exec */
    unsigned occupant = occupant_of(descriptors, index + 1, number);
    if (occupant < descriptors->count) {
        int moved = fcntl(number, F_DUPFD_CLOEXEC, 0);
        if (moved < 0)
            return -errno;
        fds[occupant] = moved;
    }
    if (dup3(fds[index], number, 0) < 0)
        return -errno;
    close(fds[index]);
    return 0;
}

int descriptors_assume(struct descriptors *descriptors, int socket)
{
    int result = protocol_receive_fds(socket, descriptors->fds, descriptors->numbers,
                                      descriptors->count, descriptors->deadline);
    if (result < 0)
        return fail(descriptors, "receive its descriptors", result);
    close(socket); /* one of the descriptors may need its number */
    for (unsigned i = 0; i < descriptors->count; i++)
        if ((result = move_to_number(descriptors, i)) < 0)
            return fail(descriptors, "set its descriptors", result);
    if (setrlimit(RLIMIT_NOFILE, &descriptors->limit) != 0)
        return fail(descriptors, "set its limits", -errno);
    return 0;
}

enum { TASKS_SOCKET = 0 };

/* Runs as the task. Its privileges change last: the other steps may need them. */
static int assume_all(void *argument)
{
    struct request *request = argument;
    int result = descriptors_assume(&request->descriptors, TASKS_SOCKET);
    return result < 0 ? result : identity_assume(&request->change);
}

/* ---- Spawning ---- */

static const char *search_path(char **envp)
{
    for (; *envp; envp++)
        if (strncmp(*envp, "PATH=", 5) == 0)
            return *envp + 5;
    return "/bin:/usr/bin"; /* as execvp has it; not the host's */
}

static void signal_set(uint64_t signals, sigset_t *set)
{
    sigemptyset(set);
    for (int signal = 1; signal <= 64; signal++)
        if (signals >> (signal - 1) & 1)
            sigaddset(set, signal);
}

static void describe_descriptor_failure(const struct request *request, int error, char *message,
                                        size_t size)
{
    const struct descriptors *descriptors = &request->descriptors;
    if (error == -EMFILE)
        snprintf(message, size,
                 "%s: cannot %s (%s): it inherits %u; raise the hard limit (ulimit -Hn) where the "
                 "space is started",
                 request->argv[0], descriptors->failed, strerror(-error), descriptors->count);
    else
        snprintf(message, size, "%s: cannot %s (%s)", request->argv[0], descriptors->failed,
                 strerror(-error));
}

static int spawn(struct request *request, char *message, size_t size)
{
    const struct protocol_request *head = &request->head;
    struct identity *identity = &request->change.wants;
    const struct onespace_fd_map socket = {request->socket, TASKS_SOCKET};
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    attr.flags = head->flags | ONESPACE_SPAWN_CLOSE_FDS | ONESPACE_SPAWN_GROUP;
    attr.directory = request->directory;
    attr.umask = identity->umask;
    attr.nice = identity->nice;
    attr.number = head->number;
    attr.ntasks = head->ntasks;
    attr.fds = &socket;
    attr.fd_count = 1;
    attr.stack_size = head->stack_size;
    attr.cpus = identity->cpus_size ? (const cpu_set_t *)identity->cpus : NULL;
    attr.cpus_size = identity->cpus_size;
    /* The limit on descriptors is the host's until the task has received them. */
    request->descriptors.limit = identity->limits[RLIMIT_NOFILE];
    (void)getrlimit(RLIMIT_NOFILE, &identity->limits[RLIMIT_NOFILE]);
    attr.limits = identity->limits;
    sigset_t mask, ignored;
    signal_set(head->signal_mask, &mask);
    signal_set(head->ignored, &ignored);
    attr.signal_mask = &mask;
    attr.ignored_signals = &ignored;
    attr.path = search_path(request->envp);
    attr.message = message;
    attr.message_size = size;
    attr.before = assume_all;
    attr.before_argument = request;
    /* Tasks inherit the memory policy of the thread that spawns them. */
    int id;
    if (head->policy_mode &&
        syscall(SYS_set_mempolicy, head->policy_mode, head->policy_nodes, 1024) != 0) {
        id = -errno;
        request->change.failed = "memory policy";
    } else {
        id = onespace_spawn(request->argv[0], request->argv, request->envp, &attr);
        if (head->policy_mode)
            syscall(SYS_set_mempolicy, 0, NULL, 0);
    }
    if (request->descriptors.failed)
        describe_descriptor_failure(request, id, message, size);
    if (!request->change.failed)
        return id;
    snprintf(message, size,
             "the host of the space cannot give its tasks the %s that this process has (%s): "
             "use another --space, or start all of the space with the same",
             request->change.failed, strerror(-id));
    return -ECONNREFUSED;
}

/* A shim that may not search its working directory cannot open it, and its task begins in the
 * host's. */
static int is_in_another_directory(const struct request *request)
{
    char path[32];
    struct stat own, its;
    snprintf(path, sizeof(path), "/proc/%d/cwd", request->peer.pid);
    return stat("/proc/self/cwd", &own) == 0 && stat(path, &its) == 0 &&
           (own.st_dev != its.st_dev || own.st_ino != its.st_ino);
}

int request_spawn(struct request *request, char *message, size_t size)
{
    int32_t number;
    int result = 0;
    if (!request->head.has_directory && is_in_another_directory(request)) {
        snprintf(message, size,
                 "the working directory may not be searched by this user, and a task that begins "
                 "there needs that: change to another one");
        return -EACCES;
    }
    request->descriptors.deadline = futex_deadline(DESCRIPTORS_TIMEOUT_MS);
    if (request->head.has_directory)
        result = protocol_receive_fds(request->socket, &request->directory, &number, 1,
                                      request->descriptors.deadline);
    if (result == 0)
        result = spawn(request, message, size);
    if (request->directory >= 0)
        close(request->directory);
    request->directory = -1;
    return result;
}
