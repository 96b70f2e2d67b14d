/* src/launch/shim.c: stands in for a task that runs in the host of a named space. */
#include "launch/launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/proc.h"
#include "launch/capacity.h"
#include "launch/identity.h"
#include "launch/protocol.h"
#include "launch/report.h"
#include "reaper/reaper.h"
#include "spawn/spawn.h"

/* ---- Sending the request ---- */

struct sent_fds {
    int directory; /* the working directory, or -1 */
    unsigned count;
    int fds[PROTOCOL_FDS_MAX]; /* the task inherits them under the same numbers */
};

extern char **environ;

/* Lists the open descriptors that the task inherits. */
static int collect_fds(struct sent_fds *sent)
{
    DIR *list = opendir("/proc/self/fd");
    if (!list)
        return -errno;
    for (struct dirent *entry; (entry = readdir(list));) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || (fcntl(fd, F_GETFD) & FD_CLOEXEC))
            continue; /* includes this directory and the socket */
        if (sent->count == PROTOCOL_FDS_MAX) {
            closedir(list);
            return -EMFILE;
        }
        sent->fds[sent->count++] = fd;
    }
    closedir(list);
    return 0;
}

static char *join_strings(char *const *argv, char *const *envp, struct protocol_request *request)
{
    size_t size = 0, at = 0;
    char *const *vectors[] = {argv, envp};
    for (int v = 0; v < 2; v++)
        for (char *const *text = vectors[v]; *text; text++)
            size += strlen(*text) + 1;
    char *texts = size <= PROTOCOL_TEXT_MAX ? malloc(size + 1) : NULL;
    if (!texts)
        return NULL;
    for (int v = 0; v < 2; v++)
        for (char *const *text = vectors[v]; *text; text++) {
            size_t length = strlen(*text) + 1;
            memcpy(texts + at, *text, length);
            at += length;
            v == 0 ? request->argc++ : request->envc++;
        }
    request->text_size = (uint32_t)size;
    return texts;
}

static int hydra_socket(void)
{
    const char *text = getenv("PMI_FD");
    return text ? atoi(text) : -1;
}

/* Slurm's PMI-2 has PMI_FD, too. */
static enum protocol_hydra hydra_of(const struct shim_task *task)
{
    struct proc_stat stat;
    if (hydra_socket() < 0 || task->launcher <= 0 || proc_read_stat(task->launcher, &stat) != 0 ||
        strncmp(stat.name, "hydra_", 6) != 0)
        return PROTOCOL_HYDRA_NONE;
    return task->launcher == getppid() ? PROTOCOL_HYDRA_PARENT : PROTOCOL_HYDRA_ABOVE;
}

static void fill_request(struct protocol_request *request, const struct shim_task *task,
                         const sigset_t *mask)
{
    request->signal_mask = signal_set_bits(mask);
    request->ignored = ignored_signals_of_process();
    request->header = protocol_header();
    identity_report_self(&request->self_report);
    request->flags = task->flags;
    /* Hydra gives each rank a session, and the kernel divides CPU time among sessions (autogroup).
     */
    if (getsid(0) == getpid())
        request->flags |= ONESPACE_SPAWN_SESSION;
    request->number = task->number;
    request->ntasks = task->ntasks;
    request->launch = hash_text(HASH_SEED, task->launch);
    request->stack_size = task->stack_size;
    request->hydra = hydra_of(task);
    if (syscall(SYS_get_mempolicy, &request->policy_mode, request->policy_nodes, 1024, NULL, 0) !=
        0)
        request->policy_mode = 0;
}

/* Launchers treat a rank as alive while its descriptors are open, so the shim closes its copies
 * when the task has them. The shim keeps two: standard error for its own messages, and PMI_FD,
 * because Hydra counts end-of-file there before the shim's exit status as a crash of the rank. */
static void request_close_copies(const struct sent_fds *sent)
{
    int hydra = hydra_socket();
    for (unsigned i = 0; i < sent->count; i++)
        if (sent->fds[i] != STDERR_FILENO && sent->fds[i] != hydra)
            close(sent->fds[i]);
}

static int request_send(int socket, const struct shim_task *task, struct sent_fds *sent,
                        const sigset_t *mask)
{
    struct protocol_request request = {0};
    sent->count = 0;
    sent->directory = -1;
    fill_request(&request, task, mask);
    int result = collect_fds(sent);
    char *texts = result < 0 ? NULL : join_strings(task->argv, environ, &request);
    if (!texts)
        return result < 0 ? result : -E2BIG;
    sent->directory = open(".", O_PATH | O_CLOEXEC);
    request.has_directory = sent->directory >= 0;
    request.fd_count = sent->count;
    result = protocol_send(socket, &request, sizeof(request));
    if (result == 0)
        result = protocol_send(socket, texts, request.text_size);
    free(texts);
    return result;
}

static int request_send_absence(int socket, const struct shim_task *task,
                                enum protocol_absence absence, const char *word)
{
    struct protocol_request request = {.header = protocol_header(),
                                       .absence = absence,
                                       .number = task->number,
                                       .ntasks = task->ntasks,
                                       .launch = hash_text(HASH_SEED, task->launch),
                                       .argc = 1};
    request.text_size = (uint32_t)strlen(word) + 1;
    int result = protocol_send(socket, &request, sizeof(request));
    return result < 0 ? result : protocol_send(socket, word, request.text_size);
}

static void close_sent_directory(struct sent_fds *sent)
{
    if (sent->directory >= 0)
        close(sent->directory);
    sent->directory = -1;
}

static int request_send_fds(int socket, struct sent_fds *sent)
{
    static const int32_t none = -1;
    int result = 0;
    if (sent->directory >= 0)
        result = protocol_send_fds(socket, &sent->directory, &none, 1);
    close_sent_directory(sent);
    if (result == 0) /* each keeps its number */
        result = protocol_send_fds(socket, sent->fds, sent->fds, sent->count);
    return result;
}

/* ---- Messages ---- */

#define HOST_GONE                                                                                  \
    "the host of the space is gone, and the task with it (was it killed, perhaps for lack of "     \
    "memory? see the kernel's log)"

static int print_failure(const char *message)
{
    fprintf(stderr, "onespace run: %s\n", message);
    return EXIT_FAILURE;
}

/* The token of the launch, from the host; or -1. */
static int token = -1;

/* Prints a message that concerns all ranks of a launch, unless another shim does. Without a token
 * the first rank prints it, and the others do if the launcher has not ended them five seconds
 * later. */
static void print_once(const struct shim_task *task, const char *message, enum say_once what)
{
    static const struct timespec while_first_prints = {.tv_sec = 5};
    if (task->number >= 0 && token >= 0 && !say_once_claim(token, what))
        return;
    if (task->number > 0 && token < 0)
        nanosleep(&while_first_prints, NULL);
    print_failure(message);
    if (task->number >= 0 && token >= 0)
        say_once_done(token, what);
}

static int print_failure_once(const struct shim_task *task, const char *message)
{
    print_once(task, message, SAY_FAILURE);
    return EXIT_FAILURE;
}

static int print_host_failure(const struct shim_task *task, const char *message)
{
    host_clean_up(task->space);
    return print_failure_once(task, message);
}

/* Ranks that come late start another host, where the other ranks will never come. If such a
 * host exists within ten seconds, tells it that the launch has failed. */
static void notify_next_host(const struct shim_task *task)
{
    enum { TRIES = 200 };
    static const struct timespec pause = {.tv_nsec = 50000000};
    static const struct timeval timeout = {.tv_sec = 10};
    struct protocol_greeting greeting;
    struct protocol_reply reply;
    struct shared_header own = protocol_header();
    for (int tries = 0; tries < TRIES; tries++) {
        nanosleep(&pause, NULL);
        int socket = host_find(task->space);
        if (socket < 0)
            continue;
        setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
        int result = protocol_receive_greeting(socket, &greeting);
        if (result == 0 && shared_header_matches(&greeting.header, &own) &&
            request_send_absence(socket, task, PROTOCOL_LOST, "") == 0)
            (void)protocol_receive(socket, &reply,
                                   sizeof(reply)); /* wait until the host has read it */
        close(socket);
        if (result == 0)
            return;
    }
}

/* Watches the task's control group while the task runs. */
static struct oom_watch memory;

/* Only the first rank has sampled which task used most memory, so it must be the one that reports.
 */
static int explain_oom_kill(const struct shim_task *task, char *message, size_t size)
{
    static const struct timespec pause = {.tv_nsec = 300000000};
    if (!oom_watch_explain(&memory, message, size))
        return 0;
    if (task->number > 0)
        nanosleep(&pause, NULL);
    return 1;
}

/* The host is gone, and all tasks with it. */
static int fail_without_host(const struct shim_task *task)
{
    char message[1024];
    int is_memory = explain_oom_kill(task, message, sizeof(message));
    int is_first = task->number < 0 || token < 0 || say_once_claim(token, SAY_FAILURE);
    host_clean_up(task->space);
    if (!is_first)
        return EXIT_FAILURE;
    print_failure(is_memory ? message : HOST_GONE);
    if (task->number >= 0 && token >= 0)
        say_once_done(token, SAY_FAILURE);
    if (task->number >= 0 && task->ntasks > 1)
        notify_next_host(task);
    return EXIT_FAILURE;
}

/* Blocks all signals, so that each can be forwarded, including those that this process ignores: the
 * task may have set a handler meanwhile. Faults of this process kill it nevertheless. */
static void block_signals(sigset_t *old)
{
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, old);
}

/* The same, except that while no host is found a user and a launcher can end this process. */
static int open_signals(sigset_t *old)
{
    static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    sigset_t set, all;
    sigfillset(&all);
    set = all;
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
        sigdelset(&set, ending[i]);
    sigprocmask(SIG_BLOCK, &set, old);
    return signalfd(-1, &all, SFD_CLOEXEC);
}

/* Signals that this process caused itself (SIGPIPE, SIGTTOU, SIGXFSZ), and the end of a child that
 * it had before it executed `onespace run`, are not for the task. */
static int is_for_task(const struct signalfd_siginfo *info)
{
    if (info->ssi_signo == SIGCHLD && info->ssi_code > 0)
        return 0;
    return info->ssi_code != SI_USER || info->ssi_pid != (uint32_t)getpid();
}

/* Returns whether the task neither blocks nor ignores nor catches the signal. */
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

static void forward_signal(int socket, int signals, int task)
{
    struct signalfd_siginfo info;
    if (read(signals, &info, sizeof(info)) != (ssize_t)sizeof(info) || !is_for_task(&info))
        return;
    struct protocol_signal signal = {.number = (int32_t)info.ssi_signo,
                                     .is_queued = info.ssi_code == SI_QUEUE,
                                     .value = info.ssi_ptr};
    int stops = signal_stops(signal.number) && takes_default_action(task, signal.number);
    protocol_send(socket, &signal, sizeof(signal));
    if (stops) /* like the task */
        signal_stop_self(signal.number);
}

/* Forwards signals until the task has ended. 0 with the status in *reply, or -errno: the host is
 * gone. */
static int wait_for_task(const struct shim_task *task, int socket, int signals,
                         struct protocol_reply *reply)
{
    enum { SAMPLE_MS = 1000 };
    int pid = reply->status.pid;
    int is_watched = task->number <= 0 && oom_watch_is_limited(&memory);
    struct pollfd watched[] = {{socket, POLLIN, 0}, {signals, POLLIN, 0}};
    for (;;) {
        int events = poll(watched, 2, is_watched ? SAMPLE_MS : -1);
        if (events == 0)
            oom_watch_sample(&memory);
        if (events <= 0)
            continue;
        if (watched[1].revents & POLLIN)
            forward_signal(socket, signals, pid);
        if (!watched[0].revents)
            continue;
        int result = protocol_receive(socket, reply, sizeof(*reply));
        if (result < 0 || reply->kind != PROTOCOL_NOTICE)
            return result;
        print_once(task, reply->message, SAY_NOTICE);
    }
}

/* Exits with the task's status, or dies of the signal that killed it. Other signals stay blocked:
 * they are for the task. */
static int exit_like(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    int number = WTERMSIG(status);
    prctl(PR_SET_DUMPABLE, 0); /* the task has dumped core */
    signal(number, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    return 128 + number;
}

/* The task inherits the affinity of this process. */
static int bind_self(const struct shim_task *task)
{
    char message[256];
    cpu_set_t cpus;
    int bound =
        cpu_binding_find(task->bind, task->number, task->ntasks, &cpus, message, sizeof(message));
    if (bound < 0)
        return print_failure(message);
    if (bound > 0 && sched_setaffinity(0, sizeof(cpus), &cpus) != 0)
        return print_failure("--cpu-bind: none of these CPUs may be used here");
    return 0;
}

/* This process does not trust the host, but the other ranks of the launch would wait for it. Tells
 * the host that, and nothing else. Returns a negated exit status. */
static int decline(const struct shim_task *task, int socket, const char *message)
{
    static const struct timeval timeout = {.tv_sec = 10};
    struct protocol_reply reply;
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    if (task->number >= 0 && request_send_absence(socket, task, PROTOCOL_DECLINED, message) == 0)
        (void)protocol_receive_with_fd(socket, &reply, sizeof(reply), &token);
    close(socket);
    return -print_failure_once(task, message);
}

/* Allows the host to trace this process where Yama restricts tracing to ancestors
 * (hydra_status_hold). */
static void allow_tracing(int socket)
{
    struct peer peer;
    if (peer_identify(socket, &peer) == 0 && peer.pid > 0)
        prctl(PR_SET_PTRACER, peer.pid, 0, 0, 0);
}

/* Returns a socket, or a negated exit status. A host that is ending closes the connection without a
 * greeting; the next try finds or starts another one. */
static int find_host(const struct shim_task *task)
{
    char message[1024];
    struct protocol_greeting greeting;
    struct shared_header own = protocol_header();
    int is_undumpable = must_clear_dumpable(getenv("ONESPACE_DUMPABLE"));
    for (int tries = 0; tries < 20; tries++) {
        int socket =
            host_connect(task->space, task->launcher, task->ntasks, message, sizeof(message));
        if (socket < 0)
            return -print_failure_once(task, message);
        int result = protocol_receive_greeting(socket, &greeting);
        int is_same_version = result == 0 && shared_header_matches(&greeting.header, &own);
        if (is_same_version && identity_check_host(socket, &greeting.self_report, is_undumpable,
                                                   message, sizeof(message)) < 0)
            return decline(task, socket, message);
        if (is_same_version) {
            allow_tracing(socket);
            return socket;
        }
        close(socket);
        if (result == 0) {
            shared_header_report("host's protocol", &greeting.header, greeting.file, &own,
                                 "this `onespace run`");
            return -126;
        }
    }
    return -print_host_failure(
        task, "the host of the space keeps dying; to find out why, see ONESPACE_HOST_LOG in "
              "onespace-run(1)");
}

static int is_lost(int error)
{
    return error == -EPIPE || error == -ECONNRESET;
}

/* Waits for the host's answer to the request. Unless it refuses, the host first acknowledges the
 * request, perhaps with a warning, and asks for the descriptors. */
static int await_answer(int socket, struct sent_fds *sent, struct protocol_reply *reply,
                        int *is_held)
{
    for (;;) {
        int fd, result = protocol_receive_with_fd(socket, reply, sizeof(*reply), &fd);
        int is_token = result == 0 && reply->kind == PROTOCOL_HELD && token < 0;
        if (fd >= 0 && !is_token)
            close(fd);
        if (result < 0 || (reply->kind != PROTOCOL_HELD && reply->kind != PROTOCOL_SEND))
            return result;
        if (is_token)
            token = fd;
        *is_held |= reply->kind == PROTOCOL_HELD;
        if (reply->message[0])
            print_failure(reply->message);
        result = reply->kind == PROTOCOL_SEND ? request_send_fds(socket, sent) : 0;
        if (result < 0 && !is_lost(result))
            return result; /* otherwise a refusal can be read */
    }
}

/* Sends the request. If a host ends before it has acknowledged the request, another one is found or
 * started. A host that ends later may have started the task. 0, or an exit status. */
static int submit(const struct shim_task *task, struct sent_fds *sent, const sigset_t *mask,
                  int *socket_out, struct protocol_reply *reply)
{
    enum { TRIES = 20 };
    char message[512];
    int result = -EPIPE, is_held = 0;
    for (int tries = 0; tries < TRIES && is_lost(result) && !is_held; tries++) {
        int socket = find_host(task);
        if (socket < 0)
            return -socket;
        block_signals(NULL);
        result = request_send(socket, task, sent, mask);
        if (result == 0 || is_lost(result)) /* read what the host sent before */
            result = await_answer(socket, sent, reply, &is_held);
        if (result == 0) {
            *socket_out = socket;
            return 0;
        }
        close(socket);
        close_sent_directory(sent);
    }
    if (is_lost(result))
        return fail_without_host(task);
    snprintf(message, sizeof(message), "cannot hand the task to the host of space %s: %s",
             task->space, strerror(-result));
    return print_failure(message);
}

static int become_program(char *const argv[])
{
    char message[PATH_MAX + 64];
    execvp(argv[0], argv);
    int error = errno;
    snprintf(message, sizeof(message), "%s: %s", argv[0], strerror(error));
    print_failure(message);
    return error == ENOENT ? 127 : 126;
}

int shim_run(const struct shim_task *task)
{
    static struct sent_fds sent;
    struct protocol_reply reply = {0};
    sigset_t old;
    open_standard_descriptors();
    if (bind_self(task) != 0)
        return 2;
    if (task->is_process)
        return become_program(task->argv);
    if (task->number >= 0)
        set_task_numbers(task->number, task->ntasks);
    int socket = -1, signals = open_signals(&old);
    if (signals < 0)
        return print_failure("cannot watch signals");
    int failed = submit(task, &sent, &old, &socket, &reply);
    if (failed)
        return failed;
    if (reply.error < 0) {
        print_failure_once(task, reply.message);
        return report_exit_code(reply.error);
    }
    if (reply.message[0])
        print_failure(reply.message);
    request_close_copies(&sent);
    oom_watch_begin(&memory, reply.status.pid);
    int result = wait_for_task(task, socket, signals, &reply);
    if (result < 0)
        return fail_without_host(task);
    if (reply.message[0])
        print_failure(reply.message);
    report_end(task->stats, task->argv[0], &reply.status, &reply.total);
    return exit_like(reply.status.status);
}
