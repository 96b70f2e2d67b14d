/* src/interpose/shm.c: a task's paths below /dev/shm, where the space keeps these files
 * (space/shm.h).
 *
 * A path counts if it is absolute and spelled /dev/shm/NAME. A name that the server does not have
 * may be a file that a process outside of the space has made in the system's directory: the call
 * then gets the system's answer, except that new files are always the space's. Listings of the
 * directory, and paths relative to it, are the system's. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "arch/copy.h"
#include "base/raw.h"
#include "base/text.h"
#include "interpose/calls.h"
#include "interpose/interpose.h"
#include "space/shm.h"

/* ---- Paths ---- */

enum path_kind {
    PATH_OF_SYSTEM,
    PATH_OF_DIRECTORY, /* /dev/shm itself */
    PATH_OF_NAME,      /* with its name in `name` */
};

/* Reads byte by byte, because a path may end right before memory that cannot be read. */
static enum path_kind find_name(const char *path, char name[SHM_NAME_SIZE])
{
    static const char directory[] = SHM_DIRECTORY;
    size_t length = 0;
    char byte;
    if (!path)
        return PATH_OF_SYSTEM;
    for (size_t i = 0; i < sizeof(directory) - 1; i++)
        if (arch_guarded_copy(&byte, path++, 1) != 0 || byte != directory[i])
            return PATH_OF_SYSTEM;
    if (arch_guarded_copy(&byte, path, 1) != 0 || (byte && byte != '/'))
        return PATH_OF_SYSTEM;
    while (byte == '/')
        if (arch_guarded_copy(&byte, ++path, 1) != 0)
            return PATH_OF_SYSTEM;
    while (byte) {
        if (byte == '/' || length == SHM_NAME_SIZE - 1)
            return PATH_OF_SYSTEM;
        name[length++] = byte;
        if (arch_guarded_copy(&byte, ++path, 1) != 0)
            return PATH_OF_SYSTEM;
    }
    name[length] = 0;
    if (text_equal(name, "."))
        length = 0;
    return length == 0 ? PATH_OF_DIRECTORY : text_equal(name, "..") ? PATH_OF_SYSTEM : PATH_OF_NAME;
}

/* ---- Requests ---- */

/* Whether the socket is connected to the root's: the kernel may give the address of a server that
 * has ended to another process. The server is the root's child, and serves the root's socket. */
static int is_of_root(long socket)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    return raw(__NR_getsockopt, socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           peer.pid == space_registry()->root_pid && peer.uid == (uid_t)raw(__NR_geteuid);
}

static long receive(long socket, struct shm_reply *reply)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {reply, sizeof(*reply)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    long got;
    do
        got = raw(__NR_recvmsg, socket, &message, MSG_CMSG_CLOEXEC);
    while (got == -EINTR);
    if (got != (long)sizeof(*reply))
        return -EPIPE;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (reply->result < 0)
        return reply->result;
    if (header && header->cmsg_type == SCM_RIGHTS)
        return *(const int *)CMSG_DATA(header);
    return message.msg_flags & MSG_CTRUNC ? -EMFILE : 0;
}

/* A descriptor (close-on-exec) for SHM_OPEN, else 0; or -errno. */
static long ask_once(const struct shm_request *request, struct shm_reply *reply)
{
    const struct space_shm *shm = &space_registry()->shm;
    long socket = raw(__NR_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), result;
    if (socket < 0)
        return socket == -EMFILE || socket == -ENFILE ? socket : -EPIPE;
    do
        result = raw(__NR_connect, socket, shm->address, shm->address_size);
    while (result == -EINTR);
    if (result == 0 && is_of_root(socket)) {
        do
            result = raw(__NR_sendto, socket, request, sizeof(*request), MSG_NOSIGNAL, NULL, 0);
        while (result == -EINTR);
        result = result < 0 ? -EPIPE : receive(socket, reply);
    } else {
        result = -EPIPE;
    }
    raw(__NR_close, socket);
    return result;
}

/* Asks the server. Returns what ask_once does. -EPIPE: there is no server any more. */
static long ask(const struct shm_request *request, struct shm_reply *reply)
{
    enum { TRIES = 3000 };
    static const struct timespec moment = {.tv_nsec = 10000000};
    long result = ask_once(request, reply);
    /* Too many descriptors of this user are in flight, and other processes will receive theirs. */
    for (int tries = 1; result == -EAGAIN && tries < TRIES; tries++) {
        raw(__NR_nanosleep, &moment, NULL);
        result = ask_once(request, reply);
    }
    return result;
}

static int is_used(void)
{
    return __builtin_expect(space_registry()->shm.is_used != 0, 0);
}

/* Whether the system's directory has the answer. */
static int is_unknown(long result)
{
    return result == -ENOENT || result == -EPIPE;
}

/* ---- Calls ---- */

int interpose_shm_open(const char *path, int flags, unsigned mode, long *result)
{
    struct shm_request request;
    struct shm_reply reply;
    if (!is_used() || find_name(path, request.name) != PATH_OF_NAME)
        return 0;
    request.operation = SHM_OPEN;
    request.flags = flags;
    request.mode = mode;
    *result = ask(&request, &reply);
    if (is_unknown(*result))
        return 0;
    if (*result >= 0 && !(flags & O_CLOEXEC))
        raw(__NR_fcntl, *result, F_SETFD, 0);
    return 1;
}

/* The file without access to its contents: a descriptor, or -errno. */
static long open_path(struct shm_request *request)
{
    struct shm_reply reply;
    request->operation = SHM_OPEN;
    request->flags = O_PATH | O_CLOEXEC;
    request->mode = 0;
    return ask(request, &reply);
}

static long answer_statfs(struct shm_request *request, enum path_kind kind, long buffer)
{
    struct shm_reply reply;
    if (kind == PATH_OF_NAME) {
        long fd = open_path(request);
        if (fd < 0)
            return fd;
        raw(__NR_close, fd);
    }
    request->operation = SHM_STATFS;
    long result = ask(request, &reply);
    if (result < 0)
        return result;
    struct statfs answer = {.f_type = TMPFS_MAGIC,
                            .f_bsize = ARCH_PAGE,
                            .f_frsize = ARCH_PAGE,
                            .f_blocks = reply.total / ARCH_PAGE,
                            .f_bfree = reply.available / ARCH_PAGE,
                            .f_bavail = reply.available / ARCH_PAGE,
                            .f_files = reply.total / ARCH_PAGE,
                            .f_ffree = reply.available / ARCH_PAGE,
                            .f_namelen = SHM_NAME_SIZE - 1};
    return interpose_copy_to_user((void *)buffer, &answer, sizeof(answer));
}

/* One of the calls that return what a file is. `a` as the call with a directory has them. */
static long answer_stat(struct shm_request *request, long nr, const long a[4])
{
    long fd = open_path(request);
    if (fd < 0)
        return fd;
    long result = nr == __NR_statx ? raw(__NR_statx, fd, "", AT_EMPTY_PATH, a[3], a[4])
                                   : raw(__NR_newfstatat, fd, "", a[2], AT_EMPTY_PATH);
    raw(__NR_close, fd);
    return result;
}

static long answer_access(struct shm_request *request, long mode)
{
    long fd = open_path(request);
    if (fd < 0)
        return fd;
    raw(__NR_close, fd);
    return mode & X_OK ? -EACCES : 0; /* all names are this user's */
}

static long answer_names(struct shm_request *request, enum shm_operation operation, long flags,
                         const char *to)
{
    struct shm_reply reply;
    request->operation = operation;
    request->flags = (int)flags;
    if (operation != SHM_UNLINK && find_name(to, request->to) != PATH_OF_NAME)
        return -EXDEV; /* another file system's */
    return ask(request, &reply);
}

/* The answer for a path below the directory; -ENOENT or -EPIPE: ask the system. */
static long answer(long nr, const long a[6], struct shm_request *request, enum path_kind kind)
{
    switch (nr) {
    case __NR_statfs:
        return answer_statfs(request, kind, a[1]);
    case __NR_faccessat:
    case __NR_faccessat2:
        return kind == PATH_OF_NAME ? answer_access(request, a[2]) : a[2] & X_OK ? -ENOENT : 0;
    default:
        break;
    }
    if (kind != PATH_OF_NAME)
        return -ENOENT;
    switch (nr) {
    case __NR_newfstatat:
    case __NR_statx:
        return answer_stat(request, nr, a);
    case __NR_unlinkat:
        return a[2] & AT_REMOVEDIR ? -ENOTDIR : answer_names(request, SHM_UNLINK, 0, NULL);
    case __NR_linkat:
        return answer_names(request, SHM_LINK, 0, (const char *)a[3]);
    case __NR_renameat2:
        return answer_names(request, SHM_RENAME, a[4], (const char *)a[3]);
    default:
        return -ENOENT;
    }
}

/* Rewrites a call without a directory as the one with it: its number. */
static long add_directory(long nr, const long a[6], long to[6])
{
    long with = nr;
    for (int i = 0; i < 6; i++)
        to[i] = a[i];
    switch (nr) {
#ifdef __NR_open
    case __NR_unlink:
        with = __NR_unlinkat;
        break;
    case __NR_access:
        with = __NR_faccessat;
        break;
    case __NR_stat:
    case __NR_lstat:
        with = __NR_newfstatat;
        break;
    case __NR_link:
        with = __NR_linkat;
        break;
    case __NR_rename:
        with = __NR_renameat2;
        break;
#endif
    case __NR_renameat:
        to[4] = 0;
        return __NR_renameat2;
    default:
        return nr;
    }
    int has_two_paths = with == __NR_linkat || with == __NR_renameat2;
    to[0] = AT_FDCWD;
    to[1] = a[0];
    to[2] = with == __NR_unlinkat ? 0 : has_two_paths ? AT_FDCWD : a[1];
    to[3] = has_two_paths ? a[1] : 0;
    to[4] = 0;
    return with;
}

long interpose_path(struct space_slot *self, long nr, const long a[6])
{
    (void)self;
    if (is_used()) {
        struct shm_request request;
        long arguments[6], with = add_directory(nr, a, arguments);
        const char *path = (const char *)arguments[with == __NR_statfs ? 0 : 1];
        enum path_kind kind = find_name(path, request.name);
        long result = kind == PATH_OF_SYSTEM ? -ENOENT : answer(with, arguments, &request, kind);
        if (!is_unknown(result))
            return result;
    }
    return raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
