// tests/mpi/pmpi/message_test.cpp: what the MPI layer says on standard error.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

extern "C" {
#include "mpi/pmpi/message.h"
}

namespace
{

// Standard error is the given descriptor in its scope.
class ErrorsInto
{
  public:
    explicit ErrorsInto(int fd)
    {
        dup2(fd, STDERR_FILENO);
    }
    ~ErrorsInto()
    {
        dup2(saved, STDERR_FILENO);
        close(saved);
    }

  private:
    int saved = dup(STDERR_FILENO);
};

const std::string text = "onespace: rank 3: 4 MiB\n";

// A launcher that reads an abort first may end the job before it passes on what it has not read.
TEST(message, is_read_by_the_launcher_when_it_returns)
{
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    std::atomic<bool> is_reading = false;
    std::string got(1000, '\0');
    std::thread launcher([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        is_reading = true;
        got.resize(static_cast<size_t>(read(ends[0], got.data(), got.size())));
    });
    {
        ErrorsInto errors(ends[1]);
        auto start = std::chrono::steady_clock::now();
        layer_message(3, "%d MiB", 4);
        // It gives up after a second.
        EXPECT_TRUE(is_reading ||
                    std::chrono::steady_clock::now() - start >= std::chrono::seconds(1));
    }
    launcher.join();
    EXPECT_EQ(got, text);
    close(ends[0]);
    close(ends[1]);
}

TEST(message, does_not_wait_for_ever)
{
    int ends[2];
    char got[100];
    ASSERT_EQ(pipe(ends), 0);
    {
        ErrorsInto errors(ends[1]);
        layer_message(3, "%d MiB", 4);
    }
    EXPECT_EQ(read(ends[0], got, sizeof(got)), static_cast<ssize_t>(text.size()));
    close(ends[0]);
    close(ends[1]);
}

TEST(message, goes_into_a_file_too)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    if (fd < 0)
        GTEST_SKIP() << "no temporary file in /tmp: errno " << errno;
    {
        ErrorsInto errors(fd);
        layer_message(3, "%d MiB", 4);
    }
    char got[100];
    EXPECT_EQ(pread(fd, got, sizeof(got), 0), static_cast<ssize_t>(text.size()));
    close(fd);
}

} // namespace
