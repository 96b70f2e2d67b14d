// tests/spawn/images_test.cpp: the file in memory from which tasks get their ld.so.
#include <sys/resource.h>

#include "fixture.hpp"

using namespace fixture;

using loader_image = SpaceTest;

namespace
{

// The descriptors of such files.
std::vector<int> images()
{
    std::vector<int> found;
    for (auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code ended;
        if (std::filesystem::read_symlink(entry, ended).string().find("onespace-loader") !=
            std::string::npos)
            found.push_back(std::stoi(entry.path().filename()));
    }
    return found;
}

bool runs()
{
    Words words = {program("plain"), "hello"};
    return as_task(words) == as_process(words);
}

} // namespace

TEST_F(loader_image, is_made_once)
{
    for (int i = 0; i < 5; i++)
        EXPECT_TRUE(runs());
    EXPECT_EQ(images().size(), 1u);
}

TEST_F(loader_image, is_made_again_when_the_root_has_closed_it)
{
    EXPECT_TRUE(runs());
    for (int fd : images()) { // as a program does that closes what it does not know
        Descriptor other(dup3(STDIN_FILENO, fd, O_CLOEXEC)); // its number is another file's now
        EXPECT_EQ(other.get(), fd);
        EXPECT_TRUE(runs());
        EXPECT_GE(fcntl(fd, F_GETFD), 0) << "which nobody closed";
    }
    EXPECT_EQ(images().size(), 1u);
}

TEST_F(loader_image, is_gone_with_the_space)
{
    EXPECT_TRUE(runs());
    ASSERT_EQ(onespace_fini(), 0);
    EXPECT_EQ(images().size(), 0u);
    ASSERT_EQ(onespace_init(), 0);
}

TEST_F(loader_image, is_another_for_another_interpreter)
{
    std::string guest = program("plain-musl");
    if (!std::filesystem::exists(guest))
        GTEST_SKIP() << "no musl-gcc (package musl-tools)";
    for (int i = 0; i < 3; i++) {
        EXPECT_TRUE(runs());
        EXPECT_EQ(as_task({guest, "hello"}), as_process({guest, "hello"}));
    }
    EXPECT_EQ(images().size(), 2u);
}

TEST_F(loader_image, is_not_needed)
{
    Limit little(RLIMIT_FSIZE, 4096); // a larger file would end the root by SIGXFSZ
    EXPECT_TRUE(runs());
    EXPECT_EQ(images().size(), 0u);
}

// A plain task is announced by the reaper, before it has done anything itself.
TEST_F(loader_image, plain_tasks_may_be_killed_at_once)
{
    for (int i = 0; i < 200; i++) {
        Spawned task = spawn_task({"/bin/sleep", "100"});
        ASSERT_GT(task.id, 0);
        EXPECT_GT(onespace_pid(task.id), 0);
        EXPECT_EQ(onespace_kill(task.id, SIGKILL), 0);
        EXPECT_EQ(task.wait(), SIGKILL);
    }
}
