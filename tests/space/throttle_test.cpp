// tests/space/throttle_test.cpp: changes of the map take turns where tasks outnumber CPUs.
#include <linux/futex.h>
#include <sys/wait.h>

#include <atomic>

#include "fixture.hpp"
#include "probe.h"

using namespace fixture;

// The unmapper takes a turn, too, perhaps after the task's end.
static bool turn_becomes_free()
{
    return eventually([] { return probe_turn() == 0; });
}

class turns : public SpaceTest
{
  protected:
    void SetUp() override
    {
        SpaceTest::SetUp();
        probe_set_oversubscribed(1);
    }
    void TearDown() override
    {
        probe_set_oversubscribed(0);
        SpaceTest::TearDown();
    }
};

TEST_F(turns, of_threads_handlers_and_tasks_leave_nothing_wrong)
{
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < 4; i++)
        tasks.push_back(std::make_unique<Task>(Words{program("turns"), "3", "2000"}));
    for (auto &task : tasks)
        EXPECT_EQ(task->finish().output, "maps 6000 wrong 0\n");
    EXPECT_TRUE(turn_becomes_free());
}

// The PID of a process that has ended.
static int nobody()
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, nullptr, 0);
    return child;
}

TEST_F(turns, are_taken_over_from_one_that_ended)
{
    probe_take_turn(nobody());
    EXPECT_EQ(as_task({program("turns"), "1", "100"}).output, "maps 100 wrong 0\n");
    EXPECT_TRUE(turn_becomes_free());
}

TEST_F(turns, are_taken_over_from_one_that_never_ends)
{
    probe_take_turn(getppid());
    EXPECT_EQ(as_task({program("turns"), "1", "100"}).output, "maps 100 wrong 0\n");
    EXPECT_TRUE(turn_becomes_free());
}

TEST_F(turns, are_not_taken_with_a_cpu_for_each)
{
    probe_set_oversubscribed(0);
    int holder = nobody();
    probe_take_turn(holder);
    EXPECT_EQ(as_task({program("turns"), "1", "100"}).output, "maps 100 wrong 0\n");
    EXPECT_EQ(probe_turn(), holder) << "nobody asked for the turn";
    probe_set_oversubscribed(1);
    EXPECT_EQ(as_task({program("turns"), "1", "1"}).output, "maps 1 wrong 0\n");
    EXPECT_TRUE(turn_becomes_free());
}

TEST_F(turns, go_on_when_tasks_that_take_them_are_killed)
{
    for (int i = 0; i < 30; i++) {
        Task task({program("turns"), "3", "1000000"});
        usleep(static_cast<useconds_t>(1000 * (i % 5)));
        task.kill();
        EXPECT_EQ(as_task({program("turns"), "1", "10"}).output, "maps 10 wrong 0\n");
        EXPECT_EQ(task.wait(), SIGKILL);
    }
    EXPECT_TRUE(turn_becomes_free());
}

// The task's answer, and whether a thread waits for the turn until then.
static std::pair<std::string, bool> ask(Task &task, const std::string &order)
{
    std::atomic<bool> is_answered = false, is_awaited = false;
    std::thread watcher([&] {
        while (!is_answered)
            is_awaited = is_awaited || (static_cast<unsigned>(probe_turn()) & FUTEX_WAITERS);
    });
    task.write_line(order);
    std::string answer = task.line();
    is_answered = true;
    watcher.join();
    return {answer, is_awaited};
}

// The spawn fails when all is mapped: no other task takes turns meanwhile.
TEST_F(turns, of_a_task_that_spawns_are_not_awaited_by_itself)
{
    Task task({program("obey")});
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(ask(task, "spawn-with 9000000"),
                  std::pair(std::to_string(-E2BIG) + " (nil)", false));
    EXPECT_EQ(task.finish().status, 0);
    EXPECT_TRUE(turn_becomes_free());
}
