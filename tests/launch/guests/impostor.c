/* tests/launch/guests/impostor.c: what a process of the same user might send to a host in place of
 * `onespace run`, to get a task with more than it has itself.
 *
 * usage: impostor SOCKET WHAT PROGRAM [ARGUMENT]...
 *   limited     lowers its limits first, and takes one CPU and umask 077
 *   securebits  root that has given up its capabilities under SECBIT_NOROOT, and denies the bit
 *   reused      has no_new_privs, and connects by a child that ends; then another process without
 *               has the child's PID
 *
 * Writes "refused: MESSAGE" or, before what the task writes, "runs". */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/protocol.h"

enum { SKIP = 77 };

static void require(int holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    exit(2);
}

static void limit(void)
{
    struct rlimit none = {0, 0}, small = {4096, 4096};
    cpu_set_t cpus, one;
    int cpu = 0;
    require(setrlimit(RLIMIT_CORE, &none) == 0 && setrlimit(RLIMIT_FSIZE, &small) == 0, "limits");
    require(sched_getaffinity(0, sizeof(cpus), &cpus) == 0, "affinity");
    while (!CPU_ISSET(cpu, &cpus))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    require(sched_setaffinity(0, sizeof(one), &one) == 0, "affinity");
    umask(077);
}

static void give_up_capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    require(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT) == 0, "securebits");
    require(syscall(SYS_capset, &header, none) == 0, "capset");
}

static int connected(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, path);
    return fd;
}

/* The caller gets no_new_privs. The PID that was connected is that of another process, a child of
 * the `free` one, which lives until that ends. */
static int connected_by_another(const char *path)
{
    int to_free[2], ready[2], ends[2];
    pid_t pid = 0;
    require(pipe(to_free) == 0 && pipe(ready) == 0, "pipe");
    if (fork() == 0) { /* free: it makes the process that gets the PID */
        close(to_free[1]);
        close(ready[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (read(to_free[0], &pid, sizeof(pid)) != (ssize_t)sizeof(pid))
            _exit(0);
        struct clone_args arguments = {
            .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&pid, .set_tid_size = 1};
        long child = syscall(SYS_clone3, &arguments, sizeof(arguments));
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            child = getpid();
        }
        if (child < 0 || child == getpid()) /* the new process is ready to die, or there is none */
            (void)!write(ready[1], &child, sizeof(child));
        for (;;)
            pause();
    }
    close(to_free[0]);
    close(ready[1]);
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    pid_t child = fork();
    if (child == 0) {
        int fd = connected(path), number = 0;
        _exit(protocol_send_fds(ends[1], &fd, &number, 1) < 0);
    }
    int fd, number;
    require(protocol_receive_fds(ends[0], &fd, &number, 1, UINT64_MAX) == 0, "the connection");
    struct protocol_greeting greeting; /* the host has accepted */
    require(recv(fd, &greeting, sizeof(greeting), MSG_PEEK | MSG_WAITALL) > 0, "greeting");
    require(waitpid(child, NULL, 0) == child, "waitpid");
    long made = 0;
    require(write(to_free[1], &child, sizeof(child)) > 0 && read(ready[0], &made, sizeof(made)) > 0,
            "the process with its PID");
    if (made != child)
        exit(SKIP); /* clone3 or set_tid is missing, or another program has got the PID */
    return fd;
}

static void send_request(int host, char **words, int count)
{
    struct protocol_request request = {.header = protocol_header(),
                                       .argc = (uint32_t)count,
                                       .envc = 1,
                                       .fd_count = 1,
                                       .number = -1,
                                       .ntasks = -1,
                                       .has_directory = 1};
    static const char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    char texts[8192];
    size_t size = 0;
    request.self_report.timer_slack = (uint64_t)prctl(PR_GET_TIMERSLACK);
    request.self_report.session_keyring = (int32_t)syscall(SYS_keyctl, 0, -3, 0); /* as it is */
    for (int i = 0; i < PROTOCOL_SPECULATION; i++)
        request.self_report.speculation[i] = prctl(PR_GET_SPECULATION_CTRL, i, 0, 0, 0);
    for (int i = 0; i <= count; i++) {
        const char *text = i < count ? words[i] : path;
        memcpy(texts + size, text, strlen(text) + 1);
        size += strlen(text) + 1;
    }
    request.text_size = (uint32_t)size;
    require(protocol_send(host, &request, sizeof(request)) == 0, "request");
    require(protocol_send(host, texts, size) == 0, "texts");
}

static void send_descriptors(int host)
{
    int directory = open("/", O_PATH | O_CLOEXEC), output = STDOUT_FILENO;
    int32_t none = -1, number = STDOUT_FILENO;
    require(protocol_send_fds(host, &directory, &none, 1) == 0, "directory");
    require(protocol_send_fds(host, &output, &number, 1) == 0, "descriptors");
}

int main(int argc, char **argv)
{
    struct protocol_greeting greeting;
    struct protocol_reply reply = {0};
    if (argc < 4)
        return 2;
    if (strcmp(argv[2], "limited") == 0)
        limit();
    else if (strcmp(argv[2], "securebits") == 0)
        give_up_capabilities();
    int is_reused = strcmp(argv[2], "reused") == 0;
    int host = is_reused ? connected_by_another(argv[1]) : connected(argv[1]);
    require(protocol_receive(host, &greeting, sizeof(greeting)) == 0, "greeting");
    send_request(host, argv + 3, argc - 3);
    while (protocol_receive(host, &reply, sizeof(reply)) == 0) {
        if (reply.kind == PROTOCOL_SEND)
            send_descriptors(host);
        if (reply.kind == PROTOCOL_ANSWER)
            printf(reply.error ? "refused: %s\n" : "runs%s\n", reply.message);
        fflush(stdout);
    }
    return 0;
}
