/* src/launch/connect.c: finds or starts the host of a named space.
 *
 * The host listens on a socket with the name of the space, in a directory that is the user's alone.
 * A lock on that directory orders the start and the end of hosts. */
#include "launch/launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/raw.h"
#include "base/futex.h"
#include "launch/identity.h"
#include "launch/protocol.h"

/* ---- The directory ----
 *
 * Without XDG_RUNTIME_DIR, another user may have made /tmp/onespace-UID first, and only that user
 * may remove it from a sticky /tmp. Then the directory is /tmp/onespace-UID.TIME, whose name cannot
 * be known beforehand. Processes of the user that start at the same time agree on one without a
 * lock, which others could hold:
 *
 * - TIME is when the attempt began. An attempt that takes longer than MAKE_MS is undone and
 *   repeated.
 * - The directory with the earliest TIME is used, but not before SETTLE_MS after that time. By then
 *   every attempt with an earlier TIME has succeeded or has been undone.
 *
 * Such a directory is used until the last host removes it, even if /tmp/onespace-UID becomes free.
 */

enum { MAKE_MS = 50, SETTLE_MS = 100, MAKE_TRIES = 100, TIME_DIGITS = 16 };

#define TMP    "/tmp"
#define PREFIX "onespace-"

/* 0: a directory that only this user can use. -EACCES: another user's. -EPERM: this user's, but not
 * private. Or another -errno. */
static int check_private(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return -errno;
    if (status.st_uid != geteuid())
        return -EACCES;
    return S_ISDIR(status.st_mode) && (status.st_mode & 077) == 0 ? 0 : -EPERM;
}

/* Whether several nodes may share the file system. A socket there belongs to one node, and on
 * others it looks like that of a host that was killed. */
static int is_on_network(const char *path)
{
    static const uint32_t kinds[] = {
        0x6969,     /* NFS */
        0x01021997, /* 9P */
        0x0bd00bd0, /* Lustre */
        0x47504653, /* GPFS */
        0x19830326, /* BeeGFS */
        0x00c36400, /* Ceph */
        0xaad7aaea, /* PanFS */
        0x20030528, /* OrangeFS */
        0x5346414f, /* AFS */
        0xff534d42, /* CIFS */
        0xfe534d42, /* SMB 2 */
        0x65735546, /* FUSE: may be any */
    };
    struct statfs about;
    if (statfs(path, &about) != 0)
        return 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if ((uint32_t)about.f_type == kinds[i])
            return 1;
    return 0;
}

/* Sets the usual path. Returns whether it is in the user's XDG_RUNTIME_DIR, to which other users
 * cannot write. */
static int usual_path(char *path, size_t size)
{
    const char *given = getenv("XDG_RUNTIME_DIR");
    int is_usable = given && given[0] == '/' && check_private(given) == 0 && strlen(given) < 48 &&
                    !is_on_network(given);
    if (is_usable)
        snprintf(path, size, "%s/onespace", given);
    else
        snprintf(path, size, TMP "/" PREFIX "%u", (unsigned)geteuid());
    return is_usable;
}

static void timed_path(char *path, size_t size, uint64_t time_ns)
{
    snprintf(path, size, TMP "/" PREFIX "%u.%0*" PRIx64, (unsigned)geteuid(), TIME_DIGITS, time_ns);
}

/* Finds the earliest of this user's directories with a time: 0, or -ENOENT. */
static int find_timed(char *path, size_t size, uint64_t *time_ns)
{
    char prefix[32], candidate[64];
    int length = snprintf(prefix, sizeof(prefix), PREFIX "%u.", (unsigned)geteuid());
    DIR *list = opendir(TMP);
    *time_ns = UINT64_MAX;
    for (struct dirent *entry; list && (entry = readdir(list));) {
        char *end;
        if (strncmp(entry->d_name, prefix, (size_t)length) != 0)
            continue;
        uint64_t its = strtoull(entry->d_name + length, &end, 16);
        timed_path(candidate, sizeof(candidate), its);
        if (!*end && its < *time_ns && check_private(candidate) == 0)
            *time_ns = its;
    }
    if (list)
        closedir(list);
    if (*time_ns == UINT64_MAX)
        return -ENOENT;
    timed_path(path, size, *time_ns);
    return 0;
}

/* 0 or -errno. *made_ns is the time of the directory that this process made, if it made one. */
static int make_timed(uint64_t *made_ns)
{
    char path[64];
    uint64_t begin = futex_now_ns();
    timed_path(path, sizeof(path), begin);
    if (mkdir(path, 0700) != 0)
        return errno == EEXIST ? 0 : -errno;
    if (futex_now_ns() - begin > MAKE_MS * UINT64_C(1000000))
        rmdir(path);
    else
        *made_ns = begin;
    return 0;
}

static int open_timed(char *path, size_t size)
{
    static const struct timespec settle = {.tv_nsec = SETTLE_MS * 1000000};
    uint64_t first, again, made = 0;
    char own[64];
    int result = -EAGAIN;
    for (int tries = 0; tries < MAKE_TRIES && result == -EAGAIN; tries++) {
        int error = 0;
        if (find_timed(path, size, &first) < 0) {
            error = make_timed(&made);
            result = error < 0 ? error : -EAGAIN;
            continue;
        }
        if (futex_now_ns() - first < SETTLE_MS * UINT64_C(1000000))
            nanosleep(&settle, NULL);
        if (find_timed(path, size, &again) == 0 && again == first)
            result = 0;
    }
    timed_path(own, sizeof(own), made);
    if (made && (result < 0 || made != first))
        rmdir(own);
    return result;
}

int runtime_dir_find(char *path, size_t size)
{
    uint64_t time_ns;
    int is_usable = usual_path(path, size), result = check_private(path);
    return result == 0 || is_usable ? result : find_timed(path, size, &time_ns);
}

int runtime_dir_open(char *path, size_t size, char *message, size_t message_size)
{
    char other[64];
    int result = runtime_dir_find(path, size);
    if (result == 0)
        return 0;
    int is_usable = usual_path(path, size);
    int error = mkdir(path, 0700) == 0 ? 0 : errno;
    result = check_private(path);
    if (result == 0)
        return 0;
    if (result == -EACCES && !is_usable) {
        error = -open_timed(other, sizeof(other));
        if (error == 0)
            snprintf(path, size, "%s", other);
        else
            snprintf(message, message_size,
                     "%s is another user's, and no other directory can be made in " TMP
                     ": %s" RUNTIME_DIR_FIX,
                     path, strerror(error));
        return error == 0 ? 0 : -EPERM;
    }
    if (result != -ENOENT) {
        snprintf(
            message, message_size,
            "%s is not a directory that only you can use: remove it, or set XDG_RUNTIME_DIR to a "
            "local directory of yours with mode 0700",
            path);
        return -EPERM;
    }
    snprintf(message, message_size, "cannot make %s: %s" RUNTIME_DIR_FIX, path, strerror(error));
    return error == 0 || error == EEXIST ? -ESTALE : -error;
}

int runtime_dir_lock(const char *path)
{
    struct stat opened, named;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? -ESTALE : -errno;
    while (flock(fd, LOCK_EX) != 0) {
        if (errno == EINTR)
            continue;
        int error = errno;
        close(fd);
        return -error;
    }
    if (fstat(fd, &opened) != 0 || stat(path, &named) != 0 || opened.st_dev != named.st_dev ||
        opened.st_ino != named.st_ino) {
        close(fd);
        return -ESTALE;
    }
    if (opened.st_uid != geteuid()) {
        close(fd);
        return -EPERM;
    }
    return fd;
}

/* ---- Sockets ---- */

enum { CONNECT_TRIES = 200, START_TRIES = 5, BACKLOG = 1024, HOST_LISTENER = 3, HOST_ERROR_PIPE };

static void socket_address(struct sockaddr_un *address, const char *directory, const char *name)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    snprintf(address->sun_path, sizeof(address->sun_path), "%.56s/%.50s", directory, name);
}

/* flags: 0; or SOCK_NONBLOCK, with the directory's lock: -EAGAIN if the host is stopped, or busy,
 * and has as many connections waiting as it may have. The socket itself blocks. */
static int try_connect(const char *directory, const char *name, int flags)
{
    struct sockaddr_un address;
    socket_address(&address, directory, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0)
        return -errno;
    int result;
    do
        result = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? fd : -errno;
    while (result == -EINTR);
    struct peer peer;
    if (result == fd && peer_identify(fd, &peer) < 0)
        result = -EPERM;
    if (result == fd && flags)
        (void)fcntl(fd, F_SETFL, 0);
    if (result < 0)
        close(fd);
    return result;
}

void runtime_dir_remove_dead_sockets(const char *directory)
{
    DIR *list = opendir(directory);
    for (struct dirent *entry; list && (entry = readdir(list));) {
        int fd =
            entry->d_name[0] == '.' ? -1 : try_connect(directory, entry->d_name, SOCK_NONBLOCK);
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
    rmdir(directory); /* succeeds if no host uses it */
}

static int listen_at(const char *directory, const char *name)
{
    struct sockaddr_un address;
    socket_address(&address, directory, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    unlink(address.sun_path); /* of a host that was killed: the caller holds the lock */
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, BACKLOG) != 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

/* Needs no descriptor: there may be none left. */
static void remove_socket(const char *directory, const char *name)
{
    struct sockaddr_un address;
    socket_address(&address, directory, name);
    unlink(address.sun_path);
    rmdir(directory); /* succeeds if no host uses it */
}

/* ---- Starting a host ---- */

struct host_start {
    const char *directory, *name;
    int expected, launcher;
    int listener;   /* the host's */
    int error_pipe; /* closed by exec; on failure the errno is written to it */
};

/* Moves the listener and the pipe to their numbers, opens /dev/null as 0 to 2, any of which may be
 * closed, and closes everything else. 0, or -1 with nothing changed. */
static int set_descriptors(const struct host_start *start)
{
    int listener = fcntl(start->listener, F_DUPFD, HOST_ERROR_PIPE + 1);
    int report = fcntl(start->error_pipe, F_DUPFD, HOST_ERROR_PIPE + 1);
    if (listener < 0 || report < 0)
        return -1;
    int opened = open("/dev/null", O_RDWR | O_CLOEXEC);
    int null = opened < 0 ? -1 : fcntl(opened, F_DUPFD, HOST_ERROR_PIPE + 1);
    if (null < 0)
        return -1;
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    const char *log = getenv("ONESPACE_HOST_LOG"); /* see onespace-run(1) */
    /* It may be in /tmp: neither follow another user's link, nor wait for the reader of a FIFO. */
    int file =
        log ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600)
            : -1;
    if (file >= 0)
        dup2(file, 2);
    dup2(listener, HOST_LISTENER);
    dup3(report, HOST_ERROR_PIPE, O_CLOEXEC);
    descriptors_close_range(HOST_ERROR_PIPE + 1, ~0u);
    return 0;
}

/* Listens before it executes, so that the shim can connect afterwards. Shares the shim's lock until
 * then. A forked copy of the shim would start with the shim's memory and threads. Returns an
 * errno. */
static int listen_and_execute(struct host_start *start)
{
    start->listener = listen_at(start->directory, start->name);
    if (start->listener < 0)
        return -start->listener;
    if (set_descriptors(start) == 0) {
        char count[16], pid[16];
        start->error_pipe = HOST_ERROR_PIPE;
        snprintf(count, sizeof(count), "%d", start->expected);
        snprintf(pid, sizeof(pid), "%d", start->launcher);
        execl("/proc/self/exe", "onespace-host", "host", start->directory, start->name, count, pid,
              (char *)NULL);
    }
    int error = errno;
    remove_socket(start->directory, start->name);
    return error;
}

/* Detaches from the terminal, except under a launcher whose ranks stay in its session, such as
 * mpirun. There the tasks stay, too: with autogroup the kernel divides CPUs among sessions, and a
 * session full of waiting ranks may keep the launcher from running (Linux 6.18). */
static void detach_session(const struct host_start *start)
{
    int leads = getsid(0) == getppid(); /* the shim */
    if (start->launcher && !leads)
        setpgid(0, 0);
    else
        setsid();
}

/* The host closes the launcher's descriptors, because launchers wait for end-of-file on them. It
 * creates the socket after leaving the launcher's process group, which launchers kill: a killed
 * process could not remove its socket. */
static _Noreturn void become_host(struct host_start *start)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL); /* the shim blocks what it forwards */
    detach_session(start);
    pid_t child = fork();
    if (child > 0)
        _exit(0);
    int error = child < 0 ? errno : listen_and_execute(start);
    (void)!write(start->error_pipe, &error, sizeof(error));
    _exit(127);
}

/* Forks twice, so that init adopts the host, and waits until it has been executed. */
static int fork_host(struct host_start *start)
{
    int ends[2], error = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    start->error_pipe = ends[1];
    pid_t child = fork();
    if (child == 0)
        become_host(start);
    if (child < 0)
        error = errno;
    close(ends[1]);
    while (child > 0 && read(ends[0], &error, sizeof(error)) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return -error;
}

static int host_start(const char *directory, const char *name, int expected, int launcher)
{
    struct host_start start = {.directory = directory,
                               .name = name,
                               .expected = expected,
                               .launcher = launcher,
                               .listener = -1};
    int result = fork_host(&start);
    if (result < 0)
        rmdir(directory); /* succeeds if no host uses it; the socket is gone */
    return result;
}

/* Waits until the host has closed its socket. A process that is being killed may close its
 * connections before its listening socket: then a new connection ends without a greeting. */
static void await_host_exit(const char *directory, const char *name)
{
    struct protocol_greeting greeting;
    struct timeval timeout = {1, 0};
    int result = -EPIPE;
    for (int tries = 0; tries < CONNECT_TRIES && result < 0 && result != -EAGAIN; tries++) {
        int fd = try_connect(directory, name, SOCK_NONBLOCK);
        if (fd < 0)
            return;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
        result = protocol_receive_greeting(fd, &greeting); /* 0, -EAGAIN: another host */
        close(fd);
    }
}

int host_find(const char *name)
{
    char directory[64];
    int result = runtime_dir_find(directory, sizeof(directory));
    return result < 0 ? result : try_connect(directory, name, SOCK_NONBLOCK);
}

void host_clean_up(const char *name)
{
    char directory[64];
    int found = runtime_dir_find(directory, sizeof(directory));
    int lock = found < 0 ? found : runtime_dir_lock(directory);
    if (lock < 0)
        return; /* another shim has removed everything */
    await_host_exit(directory, name);
    runtime_dir_remove_dead_sockets(directory);
    close(lock);
}

static int connect_locked(const char *directory, const char *name, int launcher, int expected,
                          const char **failed)
{
    int lock = runtime_dir_lock(directory);
    if (lock < 0)
        return lock;
    int started = 0, fd = try_connect(directory, name, SOCK_NONBLOCK); /* another shim's, perhaps */
    /* A host that is killed before any shim is connected has lost nothing: start another one. */
    for (int tries = 0; tries < START_TRIES && (fd == -ENOENT || fd == -ECONNREFUSED); tries++) {
        started = host_start(directory, name, expected, launcher);
        *failed = started < 0 ? "start" : "reach";
        fd = started < 0 ? started : try_connect(directory, name, SOCK_NONBLOCK);
    }
    close(lock);
    return fd == -EAGAIN && started >= 0 ? try_connect(directory, name, 0) : fd;
}

int host_connect(const char *name, int launcher, int expected, char *message, size_t size)
{
    char directory[64];
    const char *failed = "reach";
    int result = -ESTALE;
    for (int tries = 0; tries < CONNECT_TRIES && result == -ESTALE; tries++) {
        result = runtime_dir_open(directory, sizeof(directory), message, size);
        if (result == -ESTALE)
            continue;
        if (result < 0)
            return result;
        result = try_connect(directory, name, 0);
        if (result == -ENOENT || result == -ECONNREFUSED)
            result = connect_locked(directory, name, launcher, expected, &failed);
    }
    int is_directory = result == -EROFS || result == -EACCES || result == -ENOSPC;
    if (result < 0)
        snprintf(message, size, "cannot %s the host of space %s in %s: %s%s", failed, name,
                 directory, strerror(-result), is_directory ? RUNTIME_DIR_FIX : "");
    return result;
}
