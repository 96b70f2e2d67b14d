// tests/base/process_test.cpp: what is read of /proc/PID/stat.
#include <csignal>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "base/process.h"
}

TEST(process, tells_of_the_caller)
{
    process_stat stat;
    ASSERT_EQ(process_read(getpid(), &stat), 0);
    EXPECT_EQ(stat.state, 'R');
    EXPECT_EQ(stat.parent, getppid());
    EXPECT_GT(stat.start_ticks, 0u);
}

TEST(process, name_may_hold_brackets_and_blanks)
{
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_NAME, ") R 7 (x y)");
        raise(SIGSTOP);
        _exit(0);
    }
    ASSERT_EQ(waitpid(child, nullptr, WUNTRACED), child);
    process_stat stat;
    ASSERT_EQ(process_read(child, &stat), 0);
    EXPECT_STREQ(stat.name, ") R 7 (x y)");
    EXPECT_EQ(stat.state, 'T');
    EXPECT_EQ(stat.parent, getpid());
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}

TEST(process, zombie_is_one_and_a_reaped_process_is_not_there)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    ASSERT_EQ(waitid(P_PID, child, &info, WEXITED | WNOWAIT), 0);
    process_stat stat;
    ASSERT_EQ(process_read(child, &stat), 0);
    EXPECT_EQ(stat.state, 'Z');
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_EQ(process_read(child, &stat), -ENOENT);
}

TEST(process, cpu_time_grows)
{
    process_stat before, after;
    ASSERT_EQ(process_read(getpid(), &before), 0);
    do
        ASSERT_EQ(process_read(getpid(), &after), 0);
    while (after.user_ticks + after.system_ticks == before.user_ticks + before.system_ticks);
    EXPECT_EQ(after.start_ticks, before.start_ticks);
}
