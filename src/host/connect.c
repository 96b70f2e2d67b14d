/* src/host/connect.c: find or start the host of a named space. */
#include "host/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/protocol.h"
#include "host/runtime_dir.h"

enum { CONNECT_TRIES = 200, BACKLOG = 1024 };

static void socket_address(struct sockaddr_un *address, const char *directory, const char *name)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    snprintf(address->sun_path, sizeof(address->sun_path), "%.56s/%.50s", directory, name);
}

static int try_connect(const char *directory, const char *name)
{
    struct sockaddr_un address;
    socket_address(&address, directory, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int result;
    do
        result = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? fd : -errno;
    while (result == -EINTR);
    if (result == fd && !protocol_peer_is_mine(fd))
        result = -EPERM;
    if (result < 0)
        close(fd);
    return result;
}

void host_sweep(const char *directory)
{
    DIR *list = opendir(directory);
    for (struct dirent *entry; list && (entry = readdir(list));) {
        int fd = entry->d_name[0] == '.' ? -1 : try_connect(directory, entry->d_name);
        struct sockaddr_un address;
        if (fd >= 0)
            close(fd);
        if (fd != -ECONNREFUSED)
            continue;
        socket_address(&address, directory, entry->d_name);
        unlink(address.sun_path);
    }
    if (list)
        closedir(list);
}

static int listen_at(const char *directory, const char *name)
{
    struct sockaddr_un address;
    socket_address(&address, directory, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    unlink(address.sun_path); /* of a host that was killed: we hold the lock, and none answers */
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, BACKLOG) != 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

/* The host leaves the launcher's terminal and process group and holds none of its descriptors:
 * launchers wait for end-of-file on those. */
static _Noreturn void become_host(int listener, const char *directory, const char *name,
                                  int expected, int launcher)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL); /* the shim blocks what it forwards */
    setsid();
    if (fork() != 0)
        _exit(0);
    /* Everything but the listener, which becomes 3; 0 to 2 lead nowhere. */
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    const char *log = getenv("ONESPACE_HOST_LOG"); /* for troubleshooting */
    int file = log ? open(log, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (file >= 0)
        dup2(file, 2);
    dup2(listener, 3);
    close_range(4, ~0u, 0);
    char count[16], pid[16];
    snprintf(count, sizeof(count), "%d", expected);
    snprintf(pid, sizeof(pid), "%d", launcher);
    /* Execute again: a forked copy of the shim would start with the shim's memory and threads. */
    execl("/proc/self/exe", "onespace-host", "host", directory, name, count, pid, (char *)NULL);
    _exit(127);
}

int host_start(const char *directory, const char *name, int expected, int launcher)
{
    int listener = listen_at(directory, name);
    if (listener < 0)
        return listener;
    pid_t child = fork();
    if (child == 0)
        become_host(listener, directory, name, expected, launcher);
    close(listener);
    if (child < 0)
        return -errno;
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return 0;
}

static int connect_locked(const char *directory, const char *name, int launcher, int expected)
{
    int lock = runtime_dir_lock(directory);
    if (lock < 0)
        return lock;
    int fd = try_connect(directory, name); /* another shim may have started it meanwhile */
    if (fd == -ENOENT || fd == -ECONNREFUSED) {
        int result = host_start(directory, name, expected, launcher);
        fd = result < 0 ? result : try_connect(directory, name);
    }
    close(lock);
    return fd;
}

int host_connect(const char *name, int launcher, int expected, char *message, size_t size)
{
    char directory[64];
    int result = -ESTALE;
    for (int tries = 0; tries < CONNECT_TRIES && result == -ESTALE; tries++) {
        result = runtime_dir_open(directory, sizeof(directory), message, size);
        if (result < 0)
            return result;
        result = try_connect(directory, name);
        if (result == -ENOENT || result == -ECONNREFUSED)
            result = connect_locked(directory, name, launcher, expected);
    }
    if (result < 0)
        snprintf(message, size, "cannot reach the host of space %s in %s: %s", name, directory,
                 strerror(-result));
    return result;
}
