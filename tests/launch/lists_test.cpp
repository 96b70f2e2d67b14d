// tests/launch/lists_test.cpp: lists in the environment and in options: Slurm's tasks per node, and
// the CPUs of --cpu-bind.
#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <vector>

extern "C" {
#include "launch/launch.h"
}

namespace
{

// The tasks of each node from 0 on, of at most 20.
std::vector<int> tasks(const std::string &list)
{
    std::vector<int> found;
    for (int node = 0; node < 20; node++) {
        int count = launcher_slurm_tasks(list.c_str(), node);
        if (count < 0)
            break;
        found.push_back(count);
    }
    return found;
}

using Counts = std::vector<int>;

TEST(slurm_tasks, of_each_node)
{
    EXPECT_EQ(tasks("4"), Counts({4}));
    EXPECT_EQ(tasks("2(x3),1"), Counts({2, 2, 2, 1}));
    EXPECT_EQ(tasks("1,2(x2),3,4(x2)"), Counts({1, 2, 2, 3, 4, 4}));
    EXPECT_EQ(tasks("16(x1)"), Counts({16}));
    EXPECT_EQ(tasks("128(x9000)").size(), 20u);
    EXPECT_EQ(launcher_slurm_tasks("128(x9000),7", 8999), 128);
    EXPECT_EQ(launcher_slurm_tasks("128(x9000),7", 9000), 7);
    EXPECT_EQ(launcher_slurm_tasks("128(x9000),7", 9001), -1);
}

TEST(slurm_tasks, of_no_node)
{
    EXPECT_EQ(launcher_slurm_tasks("2(x3),1", -1), -1);
    EXPECT_EQ(launcher_slurm_tasks("2(x3),1", 4), -1);
}

TEST(slurm_tasks, list_that_is_none)
{
    for (const char *list : {"", ",", "x", "-1", " 2", "+2", "2(x", "2(x)", "2(x3", "2(x-1)",
                             "2(x0)", "(x3)", "2 ", "2;3", "2(y3)", "99999999999", "4294967297",
                             "1(x99999999999)", "99999999999999999999999(x2)"})
        EXPECT_EQ(launcher_slurm_tasks(list, 0), -1) << list;
    EXPECT_EQ(launcher_slurm_tasks("2,x", 1), -1);
    EXPECT_EQ(launcher_slurm_tasks("2,", 1), -1);
}

// The CPU of each of the ranks, -1 where the list is refused.
Counts cpus(const std::string &list, int ranks)
{
    Counts found;
    for (int rank = 0; rank < ranks; rank++) {
        cpu_set_t set;
        char message[256] = "";
        int bound = cpu_binding_find(list.c_str(), rank, ranks, &set, message, sizeof(message));
        int cpu = -1;
        for (int i = 0; bound == 1 && i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &set))
                cpu = cpu < 0 ? i : -2; // there is one
        EXPECT_EQ(bound == 1, !message[0]) << list << message;
        found.push_back(cpu);
    }
    return found;
}

TEST(cpu_lists, are_given_out_in_turn)
{
    EXPECT_EQ(cpus("0,2-4", 5), Counts({0, 2, 3, 4, 0}));
    EXPECT_EQ(cpus("7", 2), Counts({7, 7}));
    EXPECT_EQ(cpus("3,3,1", 3), Counts({3, 3, 1}));
    EXPECT_EQ(cpus("1023", 1), Counts({1023}));
    EXPECT_EQ(cpus("0-1023,0-1023", 3), Counts({0, 1, 2}));
}

TEST(cpu_lists, that_are_none)
{
    for (const char *list : {"", "x", "-1", "1-", "3-2", "1024", "0-1024", "1;2", "1,,2", "1-2-3",
                             "99999999999999999999"})
        EXPECT_EQ(cpus(list, 1), Counts({-1})) << list;
}

} // namespace
