// tests/launch/descriptors_test.cpp: what a task inherits arrives under its numbers, whatever these
// are, and each call that fails is named. ONESPACE_SEED=N repeats the random numbers.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

extern "C" {
#include "launch/host.h"
#include "launch/protocol.h"
}

namespace
{

constexpr int SOCKET = 0;

uint64_t deadline_in(int ms)
{
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec) +
           static_cast<uint64_t>(ms) * 1000000u;
}

// Runs it in a child whose only descriptors are standard error and, as SOCKET, a socket whose other
// end has sent `count` files with these numbers. The child's files are of sizes 1000, 1001 and so
// on.
int in_child(const std::vector<int32_t> &numbers, const std::function<int(descriptors &)> &run)
{
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    std::vector<int> files;
    for (size_t i = 0; i < numbers.size(); i++) {
        files.push_back(memfd_create("sent", MFD_CLOEXEC));
        EXPECT_EQ(ftruncate(files.back(), static_cast<off_t>(1000 + i)), 0);
    }
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], SOCKET);
        close(1);
        close_range(3, ~0u, 0);
        std::vector<int> fds(numbers.size());
        std::vector<int32_t> received(numbers.size());
        descriptors all = {static_cast<unsigned>(numbers.size()),
                           fds.data(),
                           received.data(),
                           {},
                           deadline_in(600000),
                           nullptr};
        getrlimit(RLIMIT_NOFILE, &all.limit);
        _exit(run(all));
    }
    close(ends[1]);
    // In parts, since the child may not read them.
    std::vector<int32_t> copy = numbers;
    if (!numbers.empty())
        (void)protocol_send_fds(ends[0], files.data(), copy.data(),
                                static_cast<unsigned>(numbers.size()));
    for (int file : files)
        close(file);
    int status = 0;
    waitpid(child, &status, 0);
    close(ends[0]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool all_in_place(const std::vector<int32_t> &numbers)
{
    struct stat status = {};
    for (size_t i = 0; i < numbers.size(); i++)
        if (fstat(numbers[i], &status) != 0 || status.st_size != static_cast<off_t>(1000 + i) ||
            fcntl(numbers[i], F_GETFD) != 0)
            return false;
    return true;
}

// 0, or what went wrong.
int arrives(const std::vector<int32_t> &numbers)
{
    return in_child(numbers, [&](descriptors &all) {
        int result = descriptors_assume(&all, SOCKET);
        return result != 0 ? -result : all_in_place(numbers) ? 0 : 255;
    });
}

// Whether it failed with that error and these words.
int fails(const std::vector<int32_t> &numbers, int error, const std::string &words,
          const std::function<void(descriptors &)> &spoil)
{
    return in_child(numbers, [&](descriptors &all) {
        spoil(all);
        int result = descriptors_assume(&all, SOCKET);
        if (result == -error && all.failed && words == all.failed)
            return 0;
        fprintf(stderr, "result %d, %s\n", result, all.failed ? all.failed : "nothing");
        return 1;
    });
}

void limit_to(rlim_t count)
{
    rlimit limit = {count, count};
    setrlimit(RLIMIT_NOFILE, &limit);
}

std::vector<int32_t> range(int32_t first, int32_t count)
{
    std::vector<int32_t> numbers;
    for (int32_t i = 0; i < count; i++)
        numbers.push_back(first + i);
    return numbers;
}

TEST(descriptors, none)
{
    EXPECT_EQ(arrives({}), 0);
}

TEST(descriptors, dense_from_zero)
{
    EXPECT_EQ(arrives(range(0, 40)), 0);
}

TEST(descriptors, right_where_they_are_received)
{
    EXPECT_EQ(arrives(range(1, 1)), 0);
    EXPECT_EQ(arrives(range(3, 20)), 0);
}

TEST(descriptors, in_a_circle)
{
    EXPECT_EQ(arrives({3, 4, 5, 6, 1}), 0);
    EXPECT_EQ(arrives({6, 5, 4, 3, 1, 0}), 0);
}

TEST(descriptors, more_than_one_message_holds)
{
    EXPECT_EQ(arrives(range(0, 700)), 0);
}

TEST(descriptors, any_numbers_in_any_order)
{
    const char *given = getenv("ONESPACE_SEED");
    unsigned seed = given ? static_cast<unsigned>(atoi(given)) : std::random_device{}();
    std::mt19937 random(seed);
    for (int round = 0; round < 50; round++) {
        std::vector<int32_t> numbers = range(0, 90);
        numbers.erase(numbers.begin() + 2); // standard error is this test's
        std::shuffle(numbers.begin(), numbers.end(), random);
        numbers.resize(1 + random() % numbers.size());
        ASSERT_EQ(arrives(numbers), 0) << "ONESPACE_SEED=" << seed;
    }
}

TEST(descriptors, need_one_free_number)
{
    int result = in_child({6, 5, 4, 3, 1}, [](descriptors &all) {
        limit_to(7); // socket, standard error, five
        all.limit = {7, 7};
        return -descriptors_assume(&all, SOCKET);
    });
    EXPECT_EQ(result, 0);
}

TEST(descriptors, too_many_for_the_limit)
{
    EXPECT_EQ(fails(range(10, 20), EMFILE, "receive its descriptors",
                    [](descriptors &) { limit_to(12); }),
              0);
}

// Lets it wait for five more than are sent.
void expect_eight(descriptors &all)
{
    static int fds[8];
    static int32_t numbers[8];
    all.fds = fds;
    all.numbers = numbers;
    all.count = 8;
}

TEST(descriptors, sender_that_stops_is_not_waited_for)
{
    EXPECT_EQ(fails(range(10, 3), ETIMEDOUT, "receive its descriptors",
                    [](descriptors &all) {
                        expect_eight(all);
                        all.deadline = deadline_in(100);
                    }),
              0);
}

TEST(descriptors, sender_that_is_gone)
{
    EXPECT_EQ(fails(range(10, 3), EPIPE, "receive its descriptors",
                    [](descriptors &all) {
                        expect_eight(all);
                        shutdown(SOCKET, SHUT_RDWR);
                    }),
              0);
}

TEST(descriptors, number_above_the_limit)
{
    EXPECT_EQ(fails({5, 20}, EBADF, "set its descriptors", [](descriptors &) { limit_to(16); }), 0);
}

TEST(descriptors, limit_that_may_not_be_raised)
{
    EXPECT_EQ(fails({5}, EPERM, "set its limits",
                    [](descriptors &all) {
                        all.limit.rlim_max++;
                        if (geteuid() == 0)
                            (void)!setuid(65534); // root may raise it
                    }),
              0);
}

} // namespace
