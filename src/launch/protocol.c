/* src/launch/protocol.c: see protocol.h. */
#include "launch/protocol.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.h"

struct shared_header protocol_header(void)
{
    return shared_header_of(PROTOCOL_MAGIC, sizeof(struct protocol_request));
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

/* Waits until data has arrived or the peer is gone: 0 or -errno. After the deadline it looks once
 * more: this process may have been late, not the peer. */
static int await_data(int socket, uint64_t deadline)
{
    struct pollfd data = {socket, POLLIN, 0};
    for (;;) {
        uint64_t now = deadline == UINT64_MAX ? 0 : futex_now_ns();
        int is_late = now > deadline;
        /* Rounded up: poll must not return before the deadline again and again. */
        uint64_t left_ms = is_late ? 0 : (deadline - now) / 1000000u + 1;
        int ready = poll(&data, 1, deadline == UINT64_MAX || left_ms > INT_MAX ? -1 : (int)left_ms);
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready == 0 && is_late)
            return -ETIMEDOUT;
    }
}

static int receive_all(int socket, void *data, size_t size, uint64_t deadline)
{
    for (size_t done = 0; done < size;) {
        int result = deadline == UINT64_MAX ? 0 : await_data(socket, deadline);
        if (result < 0)
            return result;
        ssize_t part = recv(socket, (char *)data + done, size - done, 0);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return part == 0 ? -EPIPE : -errno;
        done += (size_t)part;
    }
    return 0;
}

int protocol_receive(int socket, void *data, size_t size)
{
    return receive_all(socket, data, size, UINT64_MAX);
}

int protocol_receive_greeting(int socket, struct protocol_greeting *greeting)
{
    struct shared_header own = protocol_header();
    *greeting = (struct protocol_greeting){0};
    int result =
        protocol_receive(socket, greeting, offsetof(struct protocol_greeting, self_report));
    if (result < 0 || !shared_header_matches(&greeting->header, &own))
        return result;
    return protocol_receive(socket, &greeting->self_report, sizeof(greeting->self_report));
}

ssize_t protocol_receive_some(int socket, void *data, size_t size)
{
    ssize_t part;
    do
        part = recv(socket, data, size, MSG_DONTWAIT);
    while (part < 0 && errno == EINTR);
    if (part < 0)
        return errno == EAGAIN ? 0 : -errno;
    return part == 0 && size > 0 ? -EPIPE : part;
}

union fd_space {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(PROTOCOL_FDS_PER_MESSAGE * sizeof(int))];
};

/* Returns whether to try again, after a pause if too many descriptors are in flight. The kernel
 * counts those of all processes of a user, and other processes will receive theirs soon. */
static int should_retry(int error, int *tries)
{
    enum { TRIES = 3000 };
    static const struct timespec moment = {.tv_nsec = 10000000};
    if (error != ETOOMANYREFS || ++*tries > TRIES)
        return error == EINTR;
    nanosleep(&moment, NULL);
    return 1;
}

ssize_t protocol_send_once(int socket, const void *data, size_t size, const int *fds,
                           unsigned count, int waits)
{
    union fd_space control;
    memset(&control, 0, sizeof(control));
    struct iovec bytes = {(void *)data, size};
    struct msghdr message = {.msg_iov = &bytes,
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
    while (sent < 0 && (waits ? should_retry(errno, &tries) : errno == EINTR));
    return sent < 0 ? -errno : sent;
}

/* Moves the descriptors of a message into `fds`, at most `count`, and closes the others. Returns
 * how many the message had. */
static unsigned take_descriptors(struct msghdr *message, int *fds, unsigned count)
{
    unsigned had = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        unsigned in_header = (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (unsigned i = 0; i < in_header; i++, had++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            if (had < count)
                fds[had] = fd;
            else
                close(fd);
        }
    }
    return had;
}

/* Receives one message with up to `count` descriptors; *had is their number, and the rest of `fds`
 * is -1. Returns the bytes received, 0 at end-of-file, another -errno,
 * or -EPROTO if the peer sent more descriptors than that: then all are closed. */
static ssize_t receive_once(int socket, void *data, size_t size, int *fds, unsigned count,
                            unsigned *had)
{
    *had = 0;
    for (unsigned i = 0; i < count; i++)
        fds[i] = -1;
    union fd_space control;
    struct iovec bytes = {data, size};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             /* Not CMSG_SPACE: its padding has room for one more. */
                             .msg_controllen = CMSG_LEN(count * sizeof(int))};
    ssize_t got;
    do
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got == 0 ? 0 : -errno;
    *had = take_descriptors(&message, fds, count);
    /* The kernel truncates the list if the peer has sent more than `count`, and if this process can
     * have no more descriptors: only the latter leaves some of `fds` empty. */
    int is_too_many = *had > count || (*had == count && (message.msg_flags & MSG_CTRUNC));
    if (!is_too_many)
        return got;
    for (unsigned i = 0; i < count; i++) {
        close(fds[i]);
        fds[i] = -1;
    }
    return -EPROTO;
}

static int send_batch(int socket, const int *fds, const int32_t *numbers, unsigned count)
{
    size_t size = count * sizeof(*numbers);
    ssize_t sent = protocol_send_once(socket, numbers, size, fds, count, 1);
    if (sent < 0)
        return (int)sent;
    return protocol_send(socket, (const char *)numbers + sent, size - (size_t)sent);
}

static int receive_batch(int socket, int *fds, int32_t *numbers, unsigned count, uint64_t deadline)
{
    unsigned had = 0;
    size_t size = count * sizeof(*numbers);
    int result = deadline == UINT64_MAX ? 0 : await_data(socket, deadline);
    ssize_t got = result < 0 ? result : receive_once(socket, numbers, size, fds, count, &had);
    if (got <= 0)
        return got == 0 ? -EPIPE : (int)got;
    result = receive_all(socket, (char *)numbers + got, size - (size_t)got, deadline);
    return result < 0 ? result : had == count ? 0 : -EMFILE;
}

int protocol_send_with_fd(int socket, const void *data, size_t size, int fd)
{
    ssize_t sent = fd < 0 ? -ETOOMANYREFS : protocol_send_once(socket, data, size, &fd, 1, 0);
    if (sent == -ETOOMANYREFS)
        return protocol_send(socket, data, size);
    if (sent < 0)
        return (int)sent;
    return protocol_send(socket, (const char *)data + sent, size - (size_t)sent);
}

int protocol_receive_with_fd(int socket, void *data, size_t size, int *fd)
{
    unsigned had;
    ssize_t got = receive_once(socket, data, size, fd, 1, &had);
    if (got <= 0)
        return got == 0 ? -EPIPE : (int)got;
    return protocol_receive(socket, (char *)data + got, size - (size_t)got);
}

static unsigned batch_size(unsigned count, unsigned at)
{
    return count - at < PROTOCOL_FDS_PER_MESSAGE ? count - at : PROTOCOL_FDS_PER_MESSAGE;
}

int protocol_send_fds(int socket, const int *fds, const int32_t *numbers, unsigned count)
{
    int result = 0;
    for (unsigned at = 0; at < count && result == 0; at += PROTOCOL_FDS_PER_MESSAGE)
        result = send_batch(socket, fds + at, numbers + at, batch_size(count, at));
    return result;
}

int protocol_receive_fds(int socket, int *fds, int32_t *numbers, unsigned count, uint64_t deadline)
{
    int result = 0;
    for (unsigned i = 0; i < count; i++)
        fds[i] = -1;
    for (unsigned at = 0; at < count && result == 0; at += PROTOCOL_FDS_PER_MESSAGE)
        result = receive_batch(socket, fds + at, numbers + at, batch_size(count, at), deadline);
    return result;
}
