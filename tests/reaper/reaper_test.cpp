// tests/reaper/reaper_test.cpp: what the reaper and the thread that clones for it share with the
// root.
#include <sched.h>

#include "fixture.hpp"
#include "seccomp.hpp"

using namespace fixture;

using reaper = SpaceTest;

static std::vector<Spawned> many_sleeping()
{
    std::vector<Spawned> tasks;
    for (int i = 0; i < 30; i++) {
        tasks.push_back(spawn_task({"sleep", "1000"}));
        EXPECT_GT(tasks.back().id, 0) << tasks.back().message;
    }
    return tasks;
}

// When a task was killed, the reaper reads files of /proc.
TEST_F(reaper, takes_no_number_of_the_roots_descriptors)
{
    std::vector<Spawned> tasks = many_sleeping();
    int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC), others = 0;
    close(lowest);
    for (const Spawned &task : tasks) {
        EXPECT_EQ(onespace_kill(task.id, SIGKILL), 0);
        do {
            int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
            others += fd != lowest;
            close(fd);
        } while (!has_ended(task.id));
        EXPECT_EQ(task.wait(), SIGKILL);
    }
    EXPECT_EQ(others, 0);
}

// The libc makes its threads by clone3.
class reaper_without_threads : public SpaceTest
{
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(deny_call(SYS_clone, 0, BPF_JSET, CLONE_THREAD, EPERM));
        ASSERT_EQ(syscall(SYS_clone, CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, 0, 0, 0, 0), -1);
        ASSERT_EQ(errno, EPERM);
        SpaceTest::SetUp();
    }
};

TEST_F(reaper_without_threads, clones_and_reaps)
{
    std::vector<Spawned> tasks = many_sleeping();
    for (const Spawned &task : tasks) {
        EXPECT_EQ(onespace_kill(task.id, SIGKILL), 0);
        EXPECT_EQ(task.wait(), SIGKILL);
    }
    EXPECT_EQ(as_task({"echo", "ended"}), exits("ended\n"));
}
