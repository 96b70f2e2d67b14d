// tests/insitu/chaos_test.cpp: producers and consumers of one channel are killed at random moments.
// No member may hang, read a torn step, or leave anything behind.
#include <random>

#include "ends.hpp"

using namespace fixture;
using namespace ends;

using chaos = ChannelTest;

static std::mt19937 &dice()
{
    static std::mt19937 generator(std::random_device{}());
    return generator;
}

static int roll(int sides)
{
    return static_cast<int>(dice()() % static_cast<unsigned>(sides));
}

// One of the guests. The first is the producer, whose policy must stay the same while there are
// ranks.
static std::unique_ptr<Task> guest(size_t index, int policy)
{
    Words words = {program("insitu"), "", "channel"};
    if (index == 0)
        words[1] = "produce-for-ever", words.push_back(std::to_string(policy)),
        words.push_back(std::to_string(1 + roll(4)));
    else
        words[1] = "consume-for-ever", words.push_back(std::to_string(roll(2)));
    return std::make_unique<Task>(words);
}

static void expect_killed(Task &task)
{
    (void)!onespace_kill(task.id(), SIGKILL);
    Outcome outcome = task.finish();
    EXPECT_EQ(outcome, (Outcome{"", SIGKILL}));
}

static void run_chaos(int policy)
{
    constexpr size_t Guests = 4;
    std::vector<std::unique_ptr<Task>> tasks;
    for (size_t i = 0; i < Guests; i++)
        tasks.push_back(guest(i, policy));
    auto end =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(want_long() ? 60000 : 2000);
    while (std::chrono::steady_clock::now() < end) {
        sleep_ms(roll(20));
        size_t victim = static_cast<size_t>(roll(Guests));
        expect_killed(*tasks[victim]);
        tasks[victim] = guest(victim, policy);
    }
    for (std::unique_ptr<Task> &task : tasks)
        expect_killed(*task);
}

TEST_F(chaos, of_a_channel_that_waits)
{
    run_chaos(ONESPACE_INSITU_WAIT);
}

TEST_F(chaos, of_a_channel_that_skips)
{
    run_chaos(ONESPACE_INSITU_SKIP);
}

TEST_F(chaos, of_a_channel_that_copies)
{
    run_chaos(ONESPACE_INSITU_COPY);
}
