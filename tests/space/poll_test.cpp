// tests/space/poll_test.cpp: tasks that poll in loops yield their CPUs if these are oversubscribed,
// and count how often.
#include "fixture.hpp"
#include "probe.h"

using namespace fixture;

class polls : public BuildsTest
{
  protected:
    void TearDown() override
    {
        if (!IsSkipped())
            probe_set_oversubscribed(0);
        SpaceTest::TearDown();
    }

    // How often a task yielded that polls a hundred times in vain, a hundred times with success,
    // waits once, fails once and calls sched_yield once.
    static unsigned yields(int oversubscribed)
    {
        probe_set_oversubscribed(oversubscribed);
        Task task({program(GetParam()), "count"});
        EXPECT_EQ(task.line(), "found 100 wrong 0");
        unsigned count = probe_yields(task.id());
        EXPECT_EQ(task.finish().status, 0);
        return count;
    }
};

TEST_P(polls, yield_if_oversubscribed)
{
    EXPECT_EQ(yields(1), 101u);
}

TEST_P(polls, do_not_yield_otherwise)
{
    EXPECT_EQ(yields(0), 1u);
}

TEST_P(polls, can_be_cancelled)
{
    probe_set_oversubscribed(1);
    EXPECT_EQ(as_task({program(GetParam()), "cancel"}),
              as_process({program(GetParam()), "cancel"}));
}

INSTANTIATE_TEST_SUITE_P(with, polls, testing::Values("polls", "polls-musl"),
                         [](const auto &built) {
                             return std::string(built.index ? "musl" : "glibc");
                         });
