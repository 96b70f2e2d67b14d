// tests/interpose/children_test.cpp: a task's own children, which are not members and may outlive
// it.
#include "fixture.hpp"

using namespace fixture;

using children = SpaceTest;

static void expect_to_outlive()
{
    Task task({program("children"), "vfork-outlives"});
    EXPECT_EQ(task.wait(), SIGKILL);
    EXPECT_EQ(as_task({"true"}).status, 0); // the memory is not given out again
    task.write_line("go");
    EXPECT_EQ(task.line(), "executed");
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
}

// The child is found among those of the process that adopts it.
TEST_F(children, by_vfork_outlive_the_task)
{
    expect_to_outlive();
    ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    expect_to_outlive();
}

TEST_F(children, of_a_task_may_have_real_time_priorities)
{
    Outcome process = as_process({program("children"), "real-time"});
    if (process == exits("", 77))
        GTEST_SKIP() << "needs permission to use SCHED_FIFO";
    expect_same({program("children"), "real-time"}, exits("both ran\n"));
}

TEST_F(children, by_fork_are_no_members)
{
    EXPECT_EQ(as_task({program("member"), "fork"}), exits("all refused\nstill member\n"));
}

TEST_F(children, of_the_root_by_fork_are_no_members)
{
    pid_t child = fork();
    if (child == 0)
        _exit((onespace_self() == -EPERM && onespace_init() == -EPERM &&
               onespace_spawn("/bin/true", pointers({"true"}).data(), nullptr, nullptr) == -EPERM &&
               onespace_fini() == -EPERM)
                  ? 0
                  : 1);
    int status;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(as_task({"true"}).status, 0);
}

TEST_F(children, that_outlive_the_task_do_not_disturb_the_space)
{
    Task task({"sh", "-c", "sleep 0.3 & echo left"});
    EXPECT_EQ(task.line(), "left");
    EXPECT_EQ(task.wait(), 0);
    EXPECT_TRUE(eventually([] { return Footprint::now().task_mappings == 0; }));
    EXPECT_EQ(as_task({"true"}).status, 0);
}
