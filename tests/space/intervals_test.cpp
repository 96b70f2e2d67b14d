// tests/space/intervals_test.cpp: a task's entries are merged while another task cuts one of them.
#include "gtest/gtest.h"
#include "long.hpp"

extern "C" unsigned merge_and_cut(unsigned rounds); // merge_and_cut.c

TEST(intervals, that_another_member_cuts_do_not_come_back_in_a_merged_one)
{
    EXPECT_EQ(merge_and_cut(want_long() ? 10'000'000 : 50'000), 0U);
}
