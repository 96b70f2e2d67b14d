/* src/host/protocol.c: see protocol.h. */
#include "host/protocol.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "host/abi_rows.h"

PROTOCOL_ROWS(SHARED_ASSERT)

struct shared_header protocol_header(void)
{
    return SHARED_HEADER(PROTOCOL_MAGIC, PROTOCOL_ABI, struct protocol_request, PROTOCOL_ROWS);
}

int protocol_send(int socket, const void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t part = send(socket, (const char *)data + done, size - done, MSG_NOSIGNAL);
        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return -errno;
        done += (size_t)part;
    }
    return 0;
}

int protocol_receive(int socket, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t part = recv(socket, (char *)data + done, size - done, 0);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return part == 0 ? -EPIPE : -errno;
        done += (size_t)part;
    }
    return 0;
}

union fd_space {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(PROTOCOL_FDS_PER_MESSAGE * sizeof(int))];
};

/* Whether to try again. Descriptors in flight count together for all processes of a user, and
 * others receive theirs in a moment. */
static int has_waited(int error, int *tries)
{
    enum { TRIES = 200 };
    static const struct timespec moment = {.tv_nsec = 10000000};
    if (error != ETOOMANYREFS || ++*tries > TRIES)
        return error == EINTR;
    nanosleep(&moment, NULL);
    return 1;
}

static int send_some(int socket, const int *fds, const int32_t *numbers, unsigned count)
{
    union fd_space control;
    memset(&control, 0, sizeof(control));
    struct iovec data = {(void *)numbers, count * sizeof(*numbers)};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
    ssize_t sent;
    int tries = 0;
    do
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && has_waited(errno, &tries));
    if (sent < 0)
        return -errno;
    return protocol_send(socket, (const char *)numbers + sent, data.iov_len - (size_t)sent);
}

static int receive_some(int socket, int *fds, int32_t *numbers, unsigned count)
{
    union fd_space control;
    struct iovec data = {numbers, count * sizeof(*numbers)};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t got;
    do
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got == 0 ? -EPIPE : -errno;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    unsigned had = header && header->cmsg_type == SCM_RIGHTS
                       ? (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int))
                       : 0;
    if (had)
        memcpy(fds, CMSG_DATA(header), (had < count ? had : count) * sizeof(int));
    for (unsigned i = had; i < count; i++)
        fds[i] = -1;
    int result = protocol_receive(socket, (char *)numbers + got, data.iov_len - (size_t)got);
    return result < 0 ? result : had == count && !(message.msg_flags & MSG_CTRUNC) ? 0 : -EMFILE;
}

static unsigned batch_size(unsigned count, unsigned at)
{
    return count - at < PROTOCOL_FDS_PER_MESSAGE ? count - at : PROTOCOL_FDS_PER_MESSAGE;
}

int protocol_send_fds(int socket, const int *fds, const int32_t *numbers, unsigned count)
{
    int result = 0;
    for (unsigned at = 0; at < count && result == 0; at += PROTOCOL_FDS_PER_MESSAGE)
        result = send_some(socket, fds + at, numbers + at, batch_size(count, at));
    return result;
}

int protocol_receive_fds(int socket, int *fds, int32_t *numbers, unsigned count)
{
    int result = 0;
    for (unsigned i = 0; i < count; i++)
        fds[i] = -1;
    for (unsigned at = 0; at < count && result == 0; at += PROTOCOL_FDS_PER_MESSAGE)
        result = receive_some(socket, fds + at, numbers + at, batch_size(count, at));
    return result;
}

int protocol_peer(int socket)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid())
        return -EPERM;
    return peer.pid;
}
