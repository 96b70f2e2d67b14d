/* src/launch/shm_server.c: the server of the names below /dev/shm that the space keeps
 * (space/shm.h).
 *
 * A child of the root, outside of the space: it has its own memory and descriptors, one for each
 * name. The kernel kills it when the root ends. One thread serves one request at a time, so each
 * name has one file, and O_EXCL, link and rename are atomic as in a directory. It never waits for a
 * peer: a task may be stopped or killed between any two calls. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/raw.h"
#include "cgroup/cgroup.h"
#include "launch/launch.h"
#include "launch/protocol.h"
#include "space/registry.h"

/* ---- Whether the space keeps the files ---- */

/* Segments of the libraries: 16 MiB a rank in Open MPI 5, and those of windows. */
#define BYTES_PER_RANK (UINT64_C(32) << 20)

static int system_suffices(unsigned ranks, char *why, size_t size)
{
    struct statvfs system;
    if (statvfs(SHM_DIRECTORY, &system) != 0 || access(SHM_DIRECTORY, W_OK | X_OK) != 0) {
        snprintf(why, size, SHM_DIRECTORY ": %s", strerror(errno));
        return 0;
    }
    uint64_t available = (uint64_t)system.f_bavail * system.f_frsize;
    uint64_t needed = ranks * BYTES_PER_RANK;
    if (system.f_blocks == 0 || available >= needed) /* 0: a tmpfs without a limit */
        return 1;
    snprintf(why, size,
             SHM_DIRECTORY " has %" PRIu64 " KiB free, %u rank%s may need %" PRIu64 " MiB",
             available >> 10, ranks, ranks == 1 ? "" : "s", needed >> 20);
    return 0;
}

int shm_is_kept_by_space(unsigned ranks, char *why, size_t size)
{
    const char *mode = getenv(SHM_ENV);
    why[0] = 0;
    if (mode && strcmp(mode, "system") == 0)
        return 0;
    if (mode && strcmp(mode, "space") == 0)
        return 1;
    return !system_suffices(ranks, why, size);
}

/* ---- Names ---- */

struct name {
    char text[SHM_NAME_SIZE];
    int fd;
};

static struct name *names;
static size_t name_count, name_capacity;

static struct name *find(const char *text)
{
    for (size_t i = 0; i < name_count; i++)
        if (strcmp(names[i].text, text) == 0)
            return &names[i];
    return NULL;
}

/* Takes over the descriptor: 0, or -errno with it closed. */
static int add(const char *text, int fd)
{
    if (name_count == name_capacity) {
        size_t capacity = name_capacity ? 2 * name_capacity : 64;
        struct name *more = realloc(names, capacity * sizeof(*more));
        if (!more) {
            close(fd);
            return -ENOSPC;
        }
        names = more;
        name_capacity = capacity;
    }
    struct name *name = &names[name_count++];
    snprintf(name->text, sizeof(name->text), "%s", text);
    name->fd = fd;
    return 0;
}

static void remove_name(struct name *name)
{
    close(name->fd);
    *name = names[--name_count];
}

/* Opens the file again, because tasks that share an open file description would share its offset.
 * Takes only those of the peer's flags that concern an open file; with O_TMPFILE libc would end
 * this process. Returns a descriptor or -errno. */
static int reopen(int fd, int flags)
{
    static const int taken = O_ACCMODE | O_APPEND | O_TRUNC | O_NONBLOCK | O_SYNC;
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int opened = open(path, (flags & O_PATH ? O_PATH : flags & taken) | O_CLOEXEC);
    return opened >= 0 ? opened : errno == EMFILE || errno == ENFILE ? -ENOSPC : -errno;
}

/* The umask of the caller is ignored: only this user has the names. */
static int create(const struct shm_request *request)
{
    char label[64]; /* of its mappings in /proc/PID/maps */
    snprintf(label, sizeof(label), "shm/%.58s", request->name);
    int fd = memfd_create(label, MFD_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? -ENOSPC : -errno;
    int opened = reopen(fd, request->flags & ~O_TRUNC);
    (void)fchmod(fd, request->mode & 0777);
    int result = opened < 0 ? opened : add(request->name, fd);
    if (opened < 0)
        close(fd);
    else if (result < 0)
        close(opened);
    return result < 0 ? result : opened;
}

static int open_name(const struct shm_request *request)
{
    const struct name *name = find(request->name);
    if (name && (request->flags & O_CREAT) && (request->flags & O_EXCL))
        return -EEXIST;
    if (name && (request->flags & O_DIRECTORY))
        return -ENOTDIR;
    if (name)
        return reopen(name->fd, request->flags);
    if (!(request->flags & O_CREAT))
        return -ENOENT;
    return request->flags & O_DIRECTORY ? -EINVAL : create(request);
}

static int link_name(const struct shm_request *request)
{
    const struct name *name = find(request->name);
    if (!name || find(request->to))
        return name ? -EEXIST : -ENOENT;
    int fd = fcntl(name->fd, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? -ENOSPC : add(request->to, fd);
}

static int rename_name(const struct shm_request *request)
{
    struct name *name = find(request->name), *other = find(request->to);
    if (!name)
        return -ENOENT;
    if (request->flags & ~RENAME_NOREPLACE)
        return -EINVAL;
    if (other && (request->flags & (int)RENAME_NOREPLACE))
        return -EEXIST;
    if (other == name)
        return 0;
    if (other) {
        remove_name(other); /* may have moved `name` */
        name = find(request->name);
    }
    snprintf(name->text, sizeof(name->text), "%s", request->to);
    return 0;
}

static void count_memory(struct shm_reply *reply)
{
    uint64_t limit = cgroup_memory_limit();
    reply->total = machine_memory("MemTotal");
    reply->available = machine_memory("MemAvailable");
    if (limit < reply->total)
        reply->total = limit;
    if (limit < reply->available)
        reply->available = limit;
}

static int is_name(const char *text)
{
    return memchr(text, 0, SHM_NAME_SIZE) && *text && !strchr(text, '/') &&
           strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

/* Any process of this user may have sent the request. Returns a descriptor for SHM_OPEN, else 0; or
 * -errno. */
static int serve_request(const struct shm_request *request, struct shm_reply *reply)
{
    int has_target = request->operation == SHM_LINK || request->operation == SHM_RENAME;
    if (request->operation == SHM_STATFS) {
        count_memory(reply);
        return 0;
    }
    if (!is_name(request->name) || (has_target && !is_name(request->to)))
        return -EINVAL;
    switch (request->operation) {
    case SHM_OPEN:
        return open_name(request);
    case SHM_LINK:
        return link_name(request);
    case SHM_RENAME:
        return rename_name(request);
    case SHM_UNLINK: {
        struct name *name = find(request->name);
        if (name)
            remove_name(name);
        return name ? 0 : -ENOENT;
    }
    default:
        return -EINVAL;
    }
}

/* ---- Connections ---- */

enum { CONNECTIONS_MAX = 4096 }; /* more than there can be tasks */

/* In reserve for a connection when names have taken all other descriptors. Such a peer can remove a
 * name, and learns that no further one can be made. -1: in use. */
static int spare_fd = -1;

static void reserve_fd(void)
{
    if (spare_fd < 0)
        spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Serves the one request of a connection, if it has come whole. The socket has room for the reply.
 */
static void serve_connection(int socket)
{
    struct shm_request request;
    struct shm_reply reply = {0};
    if (recv(socket, &request, sizeof(request), MSG_DONTWAIT) != (ssize_t)sizeof(request))
        return;
    size_t count = name_count;
    int result = serve_request(&request, &reply);
    int fd = request.operation == SHM_OPEN && result >= 0 ? result : -1;
    reply.result = result < 0 ? result : 0;
    if (fd >= 0 && protocol_send_once(socket, &reply, sizeof(reply), &fd, 1, 0) == -ETOOMANYREFS) {
        if (name_count > count)
            remove_name(&names[count]);
        reply.result = -EAGAIN; /* too many of all processes of the user are in flight */
    }
    if (fd < 0 || reply.result < 0)
        (void)protocol_send(socket, &reply, sizeof(reply)); /* ignore errors: the peer has ended */
    if (fd >= 0)
        close(fd);
}

/* Accepts a connection of this user: its descriptor, or -1. */
static int accept_own(int listener)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    int socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0 && (errno == EMFILE || errno == ENFILE)) {
        close(spare_fd);
        spare_fd = -1;
        socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }
    if (socket < 0)
        return -1;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid())
        return socket;
    close(socket);
    return -1;
}

static _Noreturn void serve(int listener)
{
    enum { RETRY_MS = 100 }; /* of reserve_fd, when the system has no descriptors left */
    static struct pollfd polled[1 + CONNECTIONS_MAX];
    nfds_t count = 1;
    polled[0] = (struct pollfd){listener, POLLIN, 0};
    for (;;) {
        reserve_fd();
        polled[0].fd = count <= CONNECTIONS_MAX && spare_fd >= 0 ? listener : -1;
        if (poll(polled, count, spare_fd >= 0 ? -1 : RETRY_MS) < 0)
            continue;
        nfds_t kept = 1;
        for (nfds_t i = 1; i < count; i++) {
            if (!polled[i].revents) {
                polled[kept++] = polled[i];
                continue;
            }
            serve_connection(polled[i].fd);
            close(polled[i].fd);
        }
        count = kept;
        int socket = polled[0].revents ? accept_own(listener) : -1;
        if (socket >= 0)
            polled[count++] = (struct pollfd){socket, POLLIN, 0};
    }
}

/* ---- Start ---- */

static struct space_shm started;

static int start(void)
{
    enum { BACKLOG = 4096 };
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = sizeof(address);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (listener < 0)
        return -errno;
    pid_t root = getpid(), child = -1;
    if (bind(listener, (struct sockaddr *)&address, sizeof(address.sun_family)) == 0 &&
        getsockname(listener, (struct sockaddr *)&address, &size) == 0 &&
        size <= sizeof(started.address) && listen(listener, BACKLOG) == 0)
        child = fork();
    if (child == 0) {
        become_server("onespace-shm", listener, root);
        serve(SERVER_FD);
    }
    int error = child >= 0 ? 0 : size > sizeof(started.address) ? EOVERFLOW : errno;
    close(listener);
    if (error)
        return -error;
    started.address_size = size;
    memcpy(started.address, &address, size);
    started.is_used = 1;
    return 0;
}

int shm_server_start(unsigned ranks)
{
    char why[256];
    if (!shm_is_kept_by_space(ranks, why, sizeof(why)))
        return 0;
    int result = start();
    return why[0] ? 0 : result; /* not demanded: then the files are the system's */
}

void shm_server_publish(void)
{
    space_registry()->shm = started;
}
