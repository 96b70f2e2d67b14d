// tests/sharing/lock_test.cpp: locks of one task taken by another.
#include "sharer.hpp"

using namespace fixture;

using lock = SharingTest;

TEST_F(lock, mutex_excludes_across_tasks)
{
    std::string mutex = owner->make("mutex");
    owner->order("mutex", mutex);
    EXPECT_EQ(other->use("mutex", mutex), "done");
    EXPECT_EQ(owner->line(), "done");
    EXPECT_EQ(other->use("mutex-count", mutex), "200000");
}

TEST_F(lock, condition_variable_wakes_the_other_task)
{
    std::string turn = owner->make("turn");
    owner->order("turn", turn);
    EXPECT_EQ(other->use("turn-other", turn), "1");
    EXPECT_EQ(owner->line(), "1");
}

TEST_F(lock, robust_mutex_reports_the_death_of_its_holder)
{
    std::string mutex = owner->make("robust");
    EXPECT_EQ(other->use("robust", mutex), "locked");
    kill(other);
    EXPECT_EQ(owner->use("robust", mutex), "owner died");
}

// libstdc++ counts waiters in a table of each program, and so never wakes one of another program.
TEST_F(lock, atomic_notification_does_not_reach_the_other_task)
{
    std::string word = owner->make("word");
    EXPECT_EQ(other->use("word", word), "asleep");
    EXPECT_EQ(owner->use("word-notification", word), "1");
    EXPECT_EQ(other->line(), "woken");
}
