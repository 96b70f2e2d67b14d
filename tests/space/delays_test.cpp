// tests/space/delays_test.cpp: races whose critical points a delay makes last (src/base/delay.h). A
// test that is too slow for the delay checks less; it does not fail.
#include "member.hpp"
#include "probe.h"

extern "C" void onespace_delay(const char *list);

using namespace fixture;

class delays : public SpaceTest
{
  protected:
    void SetUp() override
    {
        setenv("LD_LIBRARY_PATH", ONESPACE_TEST_LIBRARIES "/delays/lib", 1);
        setenv("ONESPACE_AGENT", ONESPACE_TEST_LIBRARIES "/lib/libonespace-agent.so", 1);
        SpaceTest::SetUp();
    }
    // In the tasks that are spawned from now on, or in the root, whose code the reaper and the
    // tasks' system calls run too.
    static void delay_tasks(const char *list)
    {
        setenv("ONESPACE_DELAY", list, 1);
    }
    static void delay_root(const char *list)
    {
        onespace_delay(list);
    }
};

// The member has seen that nobody has ended, and has not gone to sleep yet.
TEST_F(delays, a_barrier_does_not_sleep_through_a_members_end)
{
    delay_tasks("group.wait:300000");
    Member waiting(0, 2), ending(1, 2);
    waiting.order("barrier", -1);
    ASSERT_TRUE(eventually([] { return probe_arrived() == 1; }));
    ending.kill();
    EXPECT_EQ(ending.wait(), SIGKILL);
    EXPECT_EQ(waiting.answer().result, -EOWNERDEAD);
    waiting.kill();
    EXPECT_EQ(waiting.wait(), SIGKILL);
}

// Both threads have claimed a slot and found that no member is left.
TEST_F(delays, a_group_is_begun_once_by_two_threads)
{
    Member first(0, 2), second(1, 2);
    EXPECT_EQ(first.finish().status, 0);
    EXPECT_EQ(second.finish().status, 0);
    for (const char *list : {"group.join:100000", "group.begin:100000", "group.count:100000"}) {
        delay_root(list);
        std::unique_ptr<Member> pair[2];
        std::thread other([&] { pair[1] = std::make_unique<Member>(1, 2); });
        pair[0] = std::make_unique<Member>(0, 2);
        other.join();
        pair[0]->order("barrier", Patience);
        EXPECT_EQ(pair[1]->tell("barrier", Patience).result, 0) << list;
        EXPECT_EQ(pair[0]->answer().result, 0) << list;
        EXPECT_EQ(pair[0]->finish().status, 0);
        EXPECT_EQ(pair[1]->finish().status, 0);
    }
}
