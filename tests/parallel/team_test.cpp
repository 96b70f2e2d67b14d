// tests/parallel/team_test.cpp: teams of tasks. The guest verifies its own results and prints "ok";
// it runs as a process, which becomes a root, and as a task, which is a member already.
#include "onespace/parallel.h"

#include "../lib/fixture.hpp"
#include "probe_team.h"

using namespace fixture;

namespace
{

Words made(int count, const std::string &what)
{
    return {program("parallel"), "made", std::to_string(count), what};
}

// A team of tasks that the test has started together.
class Started
{
  public:
    Started(int ntasks, const Words &words)
    {
        for (int i = 0; i < ntasks; i++)
            tasks_.push_back(std::make_unique<Task>(words, [&](Attr &attr) {
                attr.number = i;
                attr.ntasks = ntasks;
            }));
    }
    Task &operator[](int i)
    {
        return *tasks_[static_cast<size_t>(i)];
    }
    void expect_all(const Outcome &expected)
    {
        for (auto &task : tasks_)
            EXPECT_EQ(task->finish(), expected);
    }

  private:
    std::vector<std::unique_ptr<Task>> tasks_;
};

Words joined(int count, const std::string &what)
{
    return {program("parallel"), "joined", std::to_string(count), what};
}

const Outcome fine = exits("ok\n");
const std::string both_dead = "run: Owner died\nfini: Owner died\n";

} // namespace

class parallel : public SpaceTest
{
};

class parallel_case : public SpaceTest, public ::testing::WithParamInterface<const char *>
{
};

TEST_P(parallel_case, of_a_process)
{
    EXPECT_EQ(as_process(made(3, GetParam())), fine);
}

TEST_P(parallel_case, of_a_task)
{
    EXPECT_EQ(as_task(made(2, GetParam())), fine);
}

TEST_P(parallel_case, of_one)
{
    EXPECT_EQ(as_process(made(1, GetParam())), fine);
}

class parallel_join_case : public parallel_case
{
};

TEST_P(parallel_join_case, of_tasks_started_together)
{
    Started(3, joined(0, GetParam())).expect_all(fine);
}

namespace
{
const auto its_name = [](const auto &one) { return std::string(one.param); };
const auto common =
    ::testing::Values("loops", "shares", "reduce", "shared_memory", "globals", "barriers");
} // namespace

INSTANTIATE_TEST_SUITE_P(of, parallel_case, common, its_name);
INSTANTIATE_TEST_SUITE_P(of_maker, parallel_case,
                         ::testing::Values("nested", "outside", "fails", "twice"), its_name);
INSTANTIATE_TEST_SUITE_P(of, parallel_join_case, common, its_name);

TEST_F(parallel, dynamic_loop_gives_little_to_a_slow_member)
{
    EXPECT_EQ(as_process(made(2, "dynamic")), fine);
}

TEST_F(parallel, zero_makes_a_member_for_each_cpu)
{
    EXPECT_EQ(as_process(made(0, "globals")), fine);
}

TEST_F(parallel, far_more_members_than_cpus_come_through)
{
    EXPECT_EQ(as_process(made(40, "globals")), fine);
}

TEST_F(parallel, members_that_were_started_together_may_serve)
{
    Started(3, joined(3, "serve")).expect_all(fine);
}

TEST_F(parallel, started_tasks_form_teams_of_neighbours)
{
    Started(5, joined(2, "reduce")).expect_all(fine);
}

TEST_F(parallel, join_finds_members_that_disagree)
{
    Started tasks(2, joined(2, "barriers"));
    Task other({program("parallel"), "joined", "2", "barriers"});
    EXPECT_EQ(other.finish(), exits("join: No such file or directory\nwrong\n", 1))
        << "a task without a number";
    tasks.expect_all(fine);
}

TEST_F(parallel, join_refuses_another_count)
{
    auto numbered = [](int number) {
        return [number](Attr &attr) {
            attr.number = number;
            attr.ntasks = 3;
        };
    };
    Task first(joined(3, "barriers"), numbered(0)), second(joined(2, "barriers"), numbered(1));
    EXPECT_EQ(second.finish(), exits("join: Invalid argument\nwrong\n", 1));
    Task third(joined(3, "barriers"), numbered(2));
    EXPECT_EQ(first.finish(), exits("join: Owner died\nwrong\n", 1));
    EXPECT_EQ(third.finish(), exits("join: Owner died\nwrong\n", 1));
}

TEST_F(parallel, death_of_a_made_member_is_an_error)
{
    EXPECT_EQ(as_process(made(3, "killed")), exits("noticed\nnoticed\n" + both_dead + "ok\n"));
}

TEST_F(parallel, death_of_a_started_member_is_an_error)
{
    Started tasks(3, joined(3, "killed"));
    EXPECT_EQ(tasks[0].finish(), exits("noticed\nfini: Owner died\nok\n"));
    EXPECT_EQ(tasks[1].finish(), exits("noticed\nfini: Owner died\nok\n"));
    EXPECT_EQ(tasks[2].finish().status, SIGKILL);
}

TEST_F(parallel, death_is_noticed_by_members_that_sleep)
{
    Started tasks(3, joined(3, "wait"));
    EXPECT_EQ(tasks[0].line(), "ready");
    sleep_ms(300); // lets the other two fall asleep
    tasks[0].kill();
    for (int i = 1; i < 3; i++)
        EXPECT_EQ(tasks[i].finish(), exits("lost 0\nfini: Owner died\nwrong\n", 1));
    EXPECT_EQ(tasks[0].wait(), SIGKILL);
}

// Otherwise a member that has just seen that all live would sleep, and the wake-up would be lost.
TEST_F(parallel, death_changes_the_word_on_which_members_sleep)
{
    void *block = nullptr;
    Started tasks(3, joined(3, "wait"));
    EXPECT_EQ(tasks[0].line(), "ready");
    ASSERT_EQ(onespace_import(tasks[0].id(), "onespace.parallel.joined.0", &block, nullptr, 0), 0);
    EXPECT_TRUE(eventually([&] { return probe_team_arrived(block) == 2; }));
    uint32_t word = probe_team_word(block);
    tasks[0].kill();
    for (int i = 1; i < 3; i++)
        EXPECT_EQ(tasks[i].finish(), exits("lost 0\nfini: Owner died\nwrong\n", 1));
    EXPECT_NE(probe_team_word(block), word);
    EXPECT_EQ(onespace_release(tasks[0].id()), 0);
    EXPECT_EQ(tasks[0].wait(), SIGKILL);
}

TEST_F(parallel, members_may_be_killed_at_any_moment)
{
    for (int round = 0, rounds = want_long() ? 500 : 25; round < rounds; round++) {
        Started tasks(3, joined(3, "endless"));
        for (int i = 0; i < 3; i++)
            EXPECT_EQ(tasks[i].line(), "ready");
        usleep(static_cast<useconds_t>(rand() % 3000));
        int killed = round % 3;
        tasks[killed].kill();
        const Outcome noticed =
            exits("Owner died, lost " + std::to_string(killed) + "\nfini: Owner died\nok\n");
        for (int other : {(killed + 1) % 3, (killed + 2) % 3})
            EXPECT_EQ(tasks[other].finish(), noticed);
        EXPECT_EQ(tasks[killed].wait(), SIGKILL);
    }
}

TEST_F(parallel, members_that_hang_in_a_broken_team_are_killed)
{
    EXPECT_EQ(as_process(made(3, "stuck")), exits(both_dead + "ok\n"));
}

TEST_F(parallel, made_members_end_when_their_maker_is_killed)
{
    Task maker(made(3, "wait"));
    EXPECT_EQ(maker.line(), "ready");
    EXPECT_TRUE(onespace_pid(maker.id() + 2) > 0 || onespace_pid(maker.id() + 1) > 0);
    maker.kill();
    EXPECT_EQ(maker.finish().output, "lost 0\nlost 0\n") << "the others hold its standard output";
}

TEST_F(parallel, teams_leave_nothing_behind)
{
    EXPECT_EQ(as_task(made(3, "shared_memory")), fine);
    Footprint before = Footprint::now();
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(as_task(made(3, "shared_memory")), fine);
    expect_flat(before);
}

TEST_F(parallel, init_reports_a_program_that_never_comes)
{
    // The test program itself: its workers run no test and exit.
    onespace_parallel *team = nullptr;
    char *argv[] = {const_cast<char *>("test"), const_cast<char *>("--gtest_filter=-*"), nullptr};
    EXPECT_EQ(onespace_parallel_init(&team, 2, argv), -EOWNERDEAD);
    EXPECT_EQ(team, nullptr);
}

TEST_F(parallel, init_refuses_bad_arguments)
{
    onespace_parallel *team = nullptr;
    char *argv[] = {nullptr};
    EXPECT_EQ(onespace_parallel_init(&team, -1, argv), -EINVAL);
    EXPECT_EQ(onespace_parallel_init(&team, 2, argv), -EINVAL);
    EXPECT_EQ(onespace_parallel_init(&team, 2, nullptr), -EINVAL);
    EXPECT_EQ(onespace_parallel_join(&team, 0), -ENOENT);
    EXPECT_EQ(team, nullptr);
}
