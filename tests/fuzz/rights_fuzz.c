/* tests/fuzz/rights_fuzz.c: messages with any number of descriptors, as the host and the shim
 * receive them: batches, the token of a reply, and bytes with which none should come.
 *
 * The first byte says what receives: REPLY, PLAIN, or else batches; FULL_TABLE, with fewer free
 * descriptors than may come. The second is how many descriptors are expected. Then two bytes make a
 * message: its size, and how many descriptors it carries. Beyond not crashing: a descriptor that
 * was received is open and the receiver's, none is open afterwards that the receiver does not know,
 * and success means that as many came as were expected. */
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch/protocol.h"
#include "fuzz.h"

enum {
    REPLY = 0x80,
    FULL_TABLE = 0x40,
    PLAIN = 0x20,
    EXPECTED_MAX = 600,
    MESSAGES_MAX = 40,
    RIGHTS_MAX = 253, /* the kernel's, for a message */
    DESCRIPTORS = 640 /* that may be open at once */
};

static unsigned open_count(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Stops at the first message that the kernel refuses: too much is in flight. */
static void send_messages(int socket, int file, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 1 < size && i / 2 < MESSAGES_MAX; i += 2) {
        char bytes[256] = {0};
        union {
            struct cmsghdr header;
            char bytes[CMSG_SPACE(RIGHTS_MAX * sizeof(int))];
        } control;
        unsigned count = data[i + 1] > RIGHTS_MAX ? RIGHTS_MAX : data[i + 1];
        struct iovec part = {bytes, data[i] + 1u};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        memset(&control, 0, sizeof(control));
        if (count) {
            message.msg_control = &control;
            message.msg_controllen = CMSG_SPACE(count * sizeof(int));
            control.header.cmsg_level = SOL_SOCKET;
            control.header.cmsg_type = SCM_RIGHTS;
            control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
            for (unsigned fd = 0; fd < count; fd++)
                memcpy(CMSG_DATA(&control.header) + fd * sizeof(int), &file, sizeof(int));
        }
        if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return;
    }
}

/* Closes those that were received: how many. */
static unsigned give_back(const int *fds, unsigned count)
{
    unsigned had = 0;
    for (unsigned i = 0; i < count; i++)
        if (fds[i] >= 0) {
            require(close(fds[i]) == 0, "what was received is open, and once");
            had++;
        }
    return had;
}

static void receive(int socket, unsigned what, unsigned expected)
{
    static int fds[EXPECTED_MAX];
    static int32_t numbers[EXPECTED_MAX];
    struct protocol_reply reply;
    int result;
    if (what & PLAIN) {
        while (protocol_receive_some(socket, &reply, sizeof(reply)) > 0)
            ;
        return;
    }
    do {
        if (what & REPLY)
            result = protocol_receive_with_fd(socket, &reply, 64, fds);
        else
            result = protocol_receive_fds(socket, fds, numbers, expected, UINT64_MAX);
        unsigned had = give_back(fds, what & REPLY ? 1 : expected);
        require(result < 0 || (what & REPLY) || had == expected, "as many as were expected");
    } while (result == 0 && expected > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rlimit limit, low;
    int ends[2];
    if (size < 2)
        return 0;
    unsigned before = open_count(), what = data[0], expected = data[1] * EXPECTED_MAX / 255u;
    if (expected > 8 && !(what & 1))
        expected = data[1] % 8u;
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
    send_messages(ends[0], STDERR_FILENO, data + 2, size - 2);
    close(ends[0]);
    require(getrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit");
    low = (struct rlimit){before + 2 + what % 4, limit.rlim_max};
    if (what & FULL_TABLE)
        require(setrlimit(RLIMIT_NOFILE, &low) == 0, "a low limit");
    receive(ends[1], what, expected);
    require(setrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit again");
    close(ends[1]);
    require(open_count() == before, "no descriptor is left");
    return 0;
}
