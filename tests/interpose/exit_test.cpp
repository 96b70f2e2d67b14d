// tests/interpose/exit_test.cpp: exit_group by its number, as run-time libraries call it.
#include "fixture.hpp"

using namespace fixture;

using exit_group_by_number = SpaceTest;

TEST_F(exit_group_by_number, ends_all_threads_with_its_status)
{
    EXPECT_EQ(as_process({program("exits")}), exits("", 3));
    EXPECT_EQ(as_task({program("exits")}), exits("", 3));
}
