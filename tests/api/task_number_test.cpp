// tests/api/task_number_test.cpp: tasks that were started together find one another by number.
#include "member.hpp"

using namespace fixture;

class task_number : public SpaceTest
{
};

TEST_F(task_number, gives_the_ids_of_those_started_together)
{
    Member first(0, 2), second(1, 2);
    int ids[] = {first.tell("self").result, second.tell("self").result};
    for (int number : {0, 1}) {
        EXPECT_EQ(onespace_task(number), ids[number]);
        EXPECT_EQ(second.tell("task", number).result, ids[number]);
    }
}

TEST_F(task_number, is_not_found_before_its_task_is_started)
{
    Member last(2, 3);
    EXPECT_GT(last.tell("self").result, 0);
    EXPECT_EQ(last.tell("task", 0).result, -ESRCH);
    EXPECT_EQ(last.tell("task", 3).result, -EINVAL);
    EXPECT_EQ(last.tell("task", -1).result, -EINVAL);
}

TEST_F(task_number, says_that_its_task_has_ended)
{
    Member gone(0, 2), stays(1, 2);
    EXPECT_GT(stays.tell("self").result, 0);
    EXPECT_EQ(gone.finish().status, 0);
    EXPECT_EQ(stays.tell("task", 0).result, -EOWNERDEAD);
}

TEST_F(task_number, unnumbered_tasks_are_not_found)
{
    Member unnumbered;
    EXPECT_GT(unnumbered.tell("self").result, 0);
    EXPECT_LT(unnumbered.tell("task", 0).result, 0);
}
