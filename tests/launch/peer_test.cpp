// tests/launch/peer_test.cpp: a PID counts only as long as it is the peer's, with and without
// SO_PEERPIDFD (Linux 6.5).
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "../lib/seccomp.hpp"

extern "C" {
#include "base/proc.h"
#include "launch/identity.h"
}

namespace
{

constexpr int PEER_PIDFD = 77; // SO_PEERPIDFD

// getsockopt(SO_PEERPIDFD) fails from now on as before Linux 6.5.
bool become_older()
{
    return deny_call(SYS_getsockopt, 2, BPF_JEQ, PEER_PIDFD, ENOPROTOOPT);
}

// Runs it in a process of its own, which may become older: 0, or the line that failed.
int in_child(bool is_older, const std::function<int()> &run)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(is_older && !become_older() ? 255 : run());
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 254;
}

struct connection {
    int socket;      // the accepted end
    pid_t connector; // a child, which keeps its end until it is killed
};

connection make_connection()
{
    sockaddr_un address = {};
    socklen_t size = sizeof(address.sun_family);
    address.sun_family = AF_UNIX; // the kernel chooses a name
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)!bind(listener, reinterpret_cast<sockaddr *>(&address), size);
    (void)!listen(listener, 1);
    size = sizeof(address);
    getsockname(listener, reinterpret_cast<sockaddr *>(&address), &size);
    pid_t child = fork();
    if (child == 0) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        (void)!connect(fd, reinterpret_cast<sockaddr *>(&address), size);
        for (;;)
            pause();
    }
    int socket = accept(listener, nullptr, nullptr);
    close(listener);
    return {socket, child};
}

class Peer : public ::testing::TestWithParam<bool>
{
};

// false: this kernel; true: before Linux 6.5.
INSTANTIATE_TEST_SUITE_P(kernels, Peer, ::testing::Values(false, true));

#define REQUIRE(condition)                                                                         \
    if (!(condition))                                                                              \
    return __LINE__ % 250 + 1

TEST_P(Peer, is_confirmed_while_it_lives)
{
    EXPECT_EQ(in_child(GetParam(),
                       [] {
                           connection accepted = make_connection();
                           peer peer = {};
                           REQUIRE(peer_identify(accepted.socket, &peer) == 0);
                           REQUIRE(peer.pid == accepted.connector);
                           REQUIRE(peer_confirm(accepted.socket, &peer) == 0);
                           kill(accepted.connector, SIGKILL);
                           siginfo_t info;
                           waitid(P_PID, static_cast<id_t>(accepted.connector), &info,
                                  WEXITED | WNOWAIT);
                           REQUIRE(peer_confirm(accepted.socket, &peer) == -ESRCH); // a zombie
                           waitpid(accepted.connector, nullptr, 0);
                           REQUIRE(peer_confirm(accepted.socket, &peer) == -ESRCH);
                           return 0;
                       }),
              0);
}

TEST_P(Peer, that_began_at_another_time_is_another)
{
    EXPECT_EQ(in_child(GetParam(),
                       [] {
                           connection accepted = make_connection();
                           peer peer = {};
                           REQUIRE(peer_identify(accepted.socket, &peer) == 0);
                           peer.start_ticks--;
                           int result = peer_confirm(accepted.socket, &peer);
                           kill(accepted.connector, SIGKILL);
                           waitpid(accepted.connector, nullptr, 0);
                           return result == 0 ? 1 : result == -ESRCH ? 2 : 3;
                       }),
              GetParam() ? 2 : 1);
}

TEST(peer_groups, signal_reaches_the_group_of_that_process_only)
{
    int status = 0;
    proc_stat stat = {};
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        for (;;)
            pause();
    }
    setpgid(child, child); // both, so that it is done in either case
    ASSERT_EQ(proc_read_stat(child, &stat), 0);
    EXPECT_EQ(peer_signal_group(child, stat.start_ticks + 1, SIGKILL), -ESRCH);
    EXPECT_EQ(waitpid(child, &status, WNOHANG), 0);
    EXPECT_EQ(peer_signal_group(child, stat.start_ticks, SIGTERM), 0);
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WTERMSIG(status), SIGTERM);
    EXPECT_EQ(peer_signal_group(0, 0, SIGKILL), -ESRCH);
    ASSERT_EQ(proc_read_stat(1, &stat), 0); // as a shim in a container; signal 0 has no effect
    EXPECT_EQ(peer_signal_group(1, stat.start_ticks, 0), -ESRCH);
}

TEST(peer_groups, signal_reaches_those_whom_the_leader_has_left)
{
    int ready[2], status = 0;
    char byte;
    proc_stat stat = {};
    ASSERT_EQ(pipe(ready), 0);
    pid_t leader = fork();
    if (leader == 0) {
        setpgid(0, 0);
        if (fork() == 0) {
            (void)!write(ready[1], "x", 1);
            for (;;)
                pause(); // holds the pipe
        }
        for (;;)
            pause();
    }
    close(ready[1]);
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    ASSERT_EQ(proc_read_stat(leader, &stat), 0);
    kill(leader, SIGKILL);
    waitpid(leader, &status, 0);
    EXPECT_EQ(peer_signal_group(leader, stat.start_ticks, SIGKILL), 0);
    EXPECT_EQ(read(ready[0], &byte, 1), 0); // the child is gone
    close(ready[0]);
}

} // namespace
