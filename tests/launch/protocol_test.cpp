// tests/launch/protocol_test.cpp: a peer that sends other descriptors than it is to, or too slowly,
// leaves no descriptor behind and is waited for until the deadline only.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

extern "C" {
#include "launch/protocol.h"
}

namespace
{

class Protocol : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        file = open("/dev/null", O_RDONLY | O_CLOEXEC);
        before = open_count();
    }

    void TearDown() override
    {
        close(file);
        close(ends[0]);
        close(ends[1]);
    }

    static size_t open_count()
    {
        auto list = std::filesystem::directory_iterator("/proc/self/fd");
        return static_cast<size_t>(std::distance(begin(list), end(list)));
    }

    // One message of `size` bytes with so many descriptors, which is not how protocol.c sends.
    void send(size_t size, unsigned count)
    {
        std::vector<char> bytes(size), control(CMSG_SPACE(count * sizeof(int)));
        iovec data = {bytes.data(), size};
        msghdr message = {};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        if (count) {
            message.msg_control = control.data();
            message.msg_controllen = control.size();
            cmsghdr *header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(count * sizeof(int));
            std::vector<int> fds(count, file);
            memcpy(CMSG_DATA(header), fds.data(), count * sizeof(int));
        }
        ASSERT_EQ(sendmsg(ends[0], &message, MSG_NOSIGNAL), static_cast<ssize_t>(size));
    }

    int ends[2] = {-1, -1}, file = -1;
    size_t before = 0;
};

// The padding of a control message for one descriptor has the size of another.
TEST_F(Protocol, second_descriptor_is_refused_and_closed)
{
    for (unsigned count : {2u, 3u, 250u}) {
        int32_t number;
        int fd = -2;
        send(sizeof(number), count);
        EXPECT_EQ(protocol_receive_with_fd(ends[1], &number, sizeof(number), &fd), -EPROTO);
        EXPECT_EQ(fd, -1);
        send(sizeof(number), count);
        EXPECT_EQ(protocol_receive_fds(ends[1], &fd, &number, 1, UINT64_MAX), -EPROTO);
        EXPECT_EQ(fd, -1);
    }
    EXPECT_EQ(open_count(), before);
}

TEST_F(Protocol, more_than_a_batch_is_refused_and_closed)
{
    for (unsigned count : {4u, 5u, 250u}) {
        int32_t numbers[3];
        int fds[3];
        send(sizeof(numbers), count);
        EXPECT_EQ(protocol_receive_fds(ends[1], fds, numbers, 3, UINT64_MAX), -EPROTO);
        EXPECT_EQ(open_count(), before);
    }
}

TEST_F(Protocol, too_few_are_the_callers_to_close)
{
    int32_t numbers[3];
    int fds[3];
    send(sizeof(numbers), 2);
    EXPECT_EQ(protocol_receive_fds(ends[1], fds, numbers, 3, UINT64_MAX), -EMFILE);
    EXPECT_EQ(fds[2], -1);
    close(fds[0]);
    close(fds[1]);
    EXPECT_EQ(open_count(), before);
}

TEST_F(Protocol, table_that_is_full_differs_from_a_peer_that_sends_too_much)
{
    int32_t numbers[3];
    int fds[3];
    rlimit limit = {};
    send(sizeof(numbers), 3);
    getrlimit(RLIMIT_NOFILE, &limit);
    int free_one = dup(0);
    close(free_one);
    rlimit low = {static_cast<rlim_t>(free_one) + 1, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &low);
    int result = protocol_receive_fds(ends[1], fds, numbers, 3, UINT64_MAX);
    setrlimit(RLIMIT_NOFILE, &limit);
    EXPECT_EQ(result, -EMFILE);
    EXPECT_EQ(fds[0], free_one);
    close(fds[0]);
}

TEST_F(Protocol, descriptors_with_plain_bytes_are_closed)
{
    char bytes[8];
    send(sizeof(bytes), 3);
    EXPECT_EQ(protocol_receive(ends[1], bytes, sizeof(bytes)), 0);
    send(sizeof(bytes), 3);
    EXPECT_EQ(protocol_receive_some(ends[1], bytes, sizeof(bytes)),
              static_cast<ssize_t>(sizeof(bytes)));
    EXPECT_EQ(open_count(), before);
}

TEST_F(Protocol, one_deadline_holds_for_all_bytes)
{
    std::atomic<bool> is_over = false; // written by this thread, read by the sender alone
    std::vector<int32_t> numbers(PROTOCOL_FDS_PER_MESSAGE);
    std::vector<int> fds(numbers.size());
    std::thread sender([&] {
        send(1, static_cast<unsigned>(fds.size()));
        for (size_t sent = 1; sent < numbers.size() * sizeof(int32_t) && !is_over; sent++) {
            usleep(20000); // all of it: 20 seconds
            send(1, 0);
        }
    });
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t deadline = static_cast<uint64_t>(now.tv_sec) * 1000000000u +
                        static_cast<uint64_t>(now.tv_nsec) + 200000000u;
    EXPECT_EQ(protocol_receive_fds(ends[1], fds.data(), numbers.data(),
                                   static_cast<unsigned>(fds.size()), deadline),
              -ETIMEDOUT);
    is_over = true;
    sender.join();
    for (int fd : fds)
        if (fd >= 0)
            close(fd);
    EXPECT_EQ(open_count(), before);
}

} // namespace
