// tests/reaper/reaper_test.cpp: what the reaper and the thread that clones for it share with the
// root.
#include <cstddef>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>

#include "fixture.hpp"

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
        sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
            BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        sock_fprog filter = {std::size(code), code};
        ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
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
