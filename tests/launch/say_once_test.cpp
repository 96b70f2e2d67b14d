// tests/launch/say_once_test.cpp: of the processes that share a token one prints the message, and
// the others wait for it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

extern "C" {
#include "launch/report.h"
}

namespace
{

constexpr int PROCESSES = 16;

// The bytes that as many processes write which claim the token at about the same time: each that
// says the message writes S after some time, and all write E when they go on.
std::string messages_and_ends(int token, int milliseconds = 50)
{
    int ends[2];
    std::string text;
    EXPECT_EQ(pipe(ends), 0);
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            if (say_once_claim(token, SAY_FAILURE)) {
                usleep(1000 * milliseconds);
                (void)!write(ends[1], "S", 1);
                say_once_done(token, SAY_FAILURE);
            }
            (void)!write(ends[1], "E", 1);
            _exit(0);
        }
    close(ends[1]);
    char byte;
    while (read(ends[0], &byte, 1) == 1)
        text += byte;
    close(ends[0]);
    while (wait(nullptr) > 0)
        ;
    return text;
}

TEST(say_once, once_and_before_the_others_go_on)
{
    int token = say_once_create();
    ASSERT_GE(token, 0);
    EXPECT_EQ(messages_and_ends(token), "S" + std::string(PROCESSES, 'E'));
    close(token);
}

TEST(say_once, however_long_it_takes)
{
    int token = say_once_create();
    EXPECT_EQ(messages_and_ends(token, 1500), "S" + std::string(PROCESSES, 'E'));
    close(token);
}

TEST(say_once, not_again_to_those_that_come_late)
{
    int token = say_once_create();
    ASSERT_EQ(say_once_claim(token, SAY_FAILURE), 1);
    say_once_done(token, SAY_FAILURE);
    EXPECT_EQ(messages_and_ends(token), std::string(PROCESSES, 'E'));
    EXPECT_EQ(say_once_claim(token, SAY_FAILURE), 0);
    close(token);
}

TEST(say_once, although_a_notice_came_before)
{
    int token = say_once_create();
    ASSERT_EQ(say_once_claim(token, SAY_NOTICE), 1);
    say_once_done(token, SAY_NOTICE);
    EXPECT_EQ(say_once_claim(token, SAY_FAILURE), 1);
    say_once_done(token, SAY_FAILURE);
    EXPECT_EQ(say_once_claim(token, SAY_NOTICE), 0) << "no more of them after a failure";
    close(token);
}

TEST(say_once, by_another_if_the_first_dies_before_it_speaks)
{
    int token = say_once_create();
    pid_t child = fork();
    if (child == 0)
        _exit(say_once_claim(token, SAY_FAILURE));
    int status;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(WEXITSTATUS(status), 1);
    EXPECT_EQ(messages_and_ends(token), "S" + std::string(PROCESSES, 'E'));
    close(token);
}

// A host says so when it knows that a shim has printed the message.
TEST(say_once, by_none_that_asks_afterwards)
{
    int token = say_once_create();
    say_once_done(token, SAY_FAILURE);
    EXPECT_EQ(messages_and_ends(token), std::string(PROCESSES, 'E'));
    close(token);
}

} // namespace
