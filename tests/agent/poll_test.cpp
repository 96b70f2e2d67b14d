// tests/agent/poll_test.cpp: tasks that poll in loops yield their CPUs if these are oversubscribed.
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

    // A task that polls a hundred times without an event and a hundred times with one, waits once
    // and fails once; it counts its yields.
    static Outcome count(int oversubscribed)
    {
        probe_set_oversubscribed(oversubscribed);
        return as_task({program(GetParam()), "count"});
    }
};

TEST_P(polls, yield_only_if_oversubscribed)
{
    EXPECT_EQ(count(1).output, "found 100 wrong 0 yields 100\n");
    EXPECT_EQ(count(0).output, "found 100 wrong 0 yields 0\n");
}

TEST_P(polls, can_be_cancelled)
{
    probe_set_oversubscribed(1);
    expect_same({program(GetParam()), "cancel"});
}

INSTANTIATE_TEST_SUITE_P(with, polls, testing::Values("polls", "polls-musl"), by_name);
