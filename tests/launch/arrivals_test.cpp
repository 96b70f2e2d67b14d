// tests/launch/arrivals_test.cpp: which connections count as ranks, and how long a host waits for a
// request. The rest of the host is replaced: what would be started is counted.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <vector>

extern "C" {
#include "launch/host.h"
}

namespace
{
int refused, groups_started, identity_result;
}

extern "C" {

int identity_check(int, const peer *, const protocol_self_report *, int, identity_change *, char *,
                   size_t)
{
    return identity_result;
}

launch *launch_join(host *, const protocol_request *)
{
    return nullptr;
}

void launch_drop(host *, request *request)
{
    close(request->socket);
    request_free(request);
}

void identity_report_self(protocol_self_report *)
{
}

int launch_acknowledge(request *)
{
    return 0;
}

int64_t host_now_ms(void)
{
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int identity_assume(void *)
{
    return 0;
}

int onespace_spawn(const char *, char *const *, char *const *, const onespace_spawn_attr *)
{
    return -ENOSYS;
}

void launch_mark_reported(launch *)
{
}

void launch_refuse(host *, request *request, int, const char *)
{
    refused++;
    close(request->socket);
    request_free(request);
}

void host_queue_held(host *host, int)
{
    groups_started++;
    host->ranks_seen += host->waiting_count;
    host->waiting_count = 0;
    while (request *request = host->waiting) {
        host->waiting = request->next;
        close(request->socket);
        request_free(request);
    }
}
}

namespace
{

class Arrivals : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        refused = groups_started = identity_result = 0;
        server.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_un any = {};
        any.sun_family = AF_UNIX; // the kernel chooses a name
        ASSERT_EQ(bind(server.listener, reinterpret_cast<sockaddr *>(&any), sizeof(any.sun_family)),
                  0);
        ASSERT_EQ(listen(server.listener, 16), 0);
        size = sizeof(address);
        ASSERT_EQ(getsockname(server.listener, reinterpret_cast<sockaddr *>(&address), &size), 0);
        server.ranks_expected = 2;
    }

    void TearDown() override
    {
        while (::request *arrival = server.arrivals) {
            server.arrivals = arrival->next;
            close(arrival->socket);
            request_free(arrival);
        }
        host_queue_held(&server, 0);
        close(server.listener);
    }

    int connection()
    {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr *>(&address), size), 0);
        host_accept(&server);
        return fd;
    }

    static std::string request()
    {
        protocol_request request = {};
        request.header = protocol_header();
        request.argc = 1;
        request.text_size = 5;
        return std::string(reinterpret_cast<const char *>(&request), sizeof(request)) +
               std::string("true").append(1, '\0');
    }

    static void send(int fd, const std::string &bytes)
    {
        EXPECT_EQ(protocol_send(fd, bytes.data(), bytes.size()), 0);
    }

    host server = {};
    sockaddr_un address = {};
    socklen_t size = 0;
};

TEST_F(Arrivals, connections_that_send_nothing_are_no_ranks)
{
    int rank = connection();
    send(rank, request());
    host_serve_arrivals(&server);
    for (int i = 0; i < 3; i++)
        close(connection()); // as runtime_dir_remove_dead_sockets does
    host_serve_arrivals(&server);
    EXPECT_EQ(server.ranks_seen, 0);
    EXPECT_EQ(server.waiting_count, 1);
    EXPECT_EQ(groups_started, 0); // it waits for the second rank
    EXPECT_EQ(server.arrivals, nullptr);
    close(rank);
}

TEST_F(Arrivals, ranks_that_fail_while_they_ask_are_counted)
{
    int rank = connection(), other = connection();
    send(rank, request());
    send(other, "x");
    close(other);
    host_serve_arrivals(&server);
    EXPECT_EQ(server.ranks_seen, 1 + 1);
    EXPECT_EQ(groups_started, 1);
    close(rank);
}

TEST_F(Arrivals, rank_that_was_killed_after_its_request_ends_no_other)
{
    int killed = connection(), other = connection();
    identity_result = -ECONNREFUSED; // as of a process that /proc does not show any more
    send(killed, request());
    close(killed);
    host_serve_arrivals(&server);
    EXPECT_EQ(refused, 0);
    EXPECT_EQ(server.ranks_seen, 1);
    send(other, request());
    host_serve_arrivals(&server);
    EXPECT_EQ(refused, 1);
    close(other);
}

TEST_F(Arrivals, request_that_comes_byte_by_byte_is_not_waited_for)
{
    int slow = connection(), rank = connection();
    std::string all = request();
    for (char byte : all.substr(0, all.size() - 1)) {
        send(slow, std::string(1, byte));
        host_serve_arrivals(&server);
    }
    EXPECT_EQ(server.waiting_count, 0);
    send(rank, all);
    host_serve_arrivals(&server);
    EXPECT_EQ(server.waiting_count, 1); // before the other is there
    send(slow, std::string(1, all.back()));
    host_serve_arrivals(&server);
    EXPECT_EQ(groups_started, 1);
    close(slow);
    close(rank);
}

TEST_F(Arrivals, silent_connection_is_closed_at_its_deadline)
{
    char byte;
    int silent = connection();
    EXPECT_GT(host_arrival_timeout(&server), 0);
    host_serve_arrivals(&server);
    ASSERT_NE(server.arrivals, nullptr);
    server.arrivals->deadline_ms = host_now_ms() - 1;
    EXPECT_EQ(host_arrival_timeout(&server), 0);
    host_serve_arrivals(&server);
    EXPECT_EQ(server.arrivals, nullptr);
    EXPECT_EQ(server.arrival_count, 0);
    EXPECT_EQ(host_arrival_timeout(&server), -1);
    EXPECT_EQ(server.ranks_seen, 0);
    protocol_greeting greeting;
    EXPECT_EQ(protocol_receive(silent, &greeting, sizeof(greeting)), 0);
    EXPECT_EQ(read(silent, &byte, 1), 0);
    close(silent);
}

TEST_F(Arrivals, rubbish_is_turned_away)
{
    std::string bad = request();
    bad[0] ^= 1;
    int fd = connection();
    send(fd, bad);
    host_serve_arrivals(&server);
    EXPECT_EQ(server.arrivals, nullptr);
    EXPECT_EQ(server.waiting_count, 0);
    close(fd);
}

} // namespace
