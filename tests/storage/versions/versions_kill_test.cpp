// tests/storage/versions/versions_kill_test.cpp: jobs that are killed while they store and commit,
// again and again on the same files: nothing committed may be lost, nothing torn accepted.
//
// 25 rounds for each arrangement of files; 250 with ONESPACE_LONG=1. ONESPACE_SEED=N repeats a run,
// except for kills after a time.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <gtest/gtest.h>
#include <random>

#include "../../lib/long.hpp"
#include "crew.hpp"
#include "directory.hpp"

namespace
{

unsigned rounds()
{
    return want_long() ? 250 : 25;
}

uint64_t first_seed()
{
    const char *value = getenv("ONESPACE_SEED");
    uint64_t seed = value ? strtoull(value, nullptr, 10) : uint64_t(time(nullptr));
    printf("ONESPACE_SEED=%lu\n", seed);
    return seed;
}

// How the job of one round ends.
void plan(Job &job, std::mt19937_64 &random)
{
    job.seed = random();
    if (!job.is_separate)
        job.ranks = uint32_t(1 + random() % 4);
    job.keep = unsigned(1 + random() % 3);
    job.dying_rank = -1;
    job.killed_after_us = 0;
    if (random() % 4) {
        job.dying_rank = int(random() % job.ranks);
        job.dies_at_step = unsigned(1 + random() % 120);
    } else
        job.killed_after_us = unsigned(200 + random() % 20000);
}

// The first error, or "".
std::string judge(const Outcome &outcome, uint64_t least)
{
    if (outcome.has_hung)
        return "the job hung";
    if (!outcome.torn.empty())
        return outcome.torn;
    if (!outcome.is_killed && outcome.errors_differ)
        return "the ranks do not agree on the outcome";
    if (outcome.error && !outcome.is_killed)
        return "error: " + outcome.text;
    if (!outcome.is_killed && outcome.restored < least)
        return "version " + std::to_string(least) + " was committed, " +
               std::to_string(outcome.restored) + " restored";
    return "";
}

// Runs killed jobs, and after each one a job that only checks. "" or what went wrong.
std::string kill_jobs(Job job, std::mt19937_64 &random, unsigned count)
{
    Directory directory;
    uint64_t least = 0, killed = 0;
    job.path = directory / "data";
    for (unsigned round = 0; round < count; round++) {
        plan(job, random);
        Outcome outcome = run_job(job);
        std::string wrong = judge(outcome, least);
        least = outcome.committed > least ? outcome.committed : least;
        killed += outcome.is_killed;
        Job look = job;
        look.dying_rank = -1, look.killed_after_us = 0, look.commits = 0;
        Outcome after = run_job(look);
        if (wrong.empty())
            wrong = judge(after, least);
        if (wrong.empty() && after.restored > least + 1)
            wrong = "a version was restored that was never reached";
        if (!wrong.empty())
            return "round " + std::to_string(round) + ": " + wrong;
        least = after.restored;
    }
    printf("%u rounds, %lu jobs killed, version %lu reached\n", count, killed, least);
    EXPECT_GT(killed, 0u);
    return "";
}

TEST(versions_kill, shared_file_loses_and_tears_nothing)
{
    std::mt19937_64 random(first_seed());
    Job job;
    EXPECT_EQ(kill_jobs(job, random, rounds()), "");
}

TEST(versions_kill, file_per_rank_loses_and_tears_nothing)
{
    std::mt19937_64 random(first_seed());
    Job job;
    job.is_separate = true, job.ranks = 3;
    EXPECT_EQ(kill_jobs(job, random, rounds()), "");
}

// The test is tested: without the agreement of step 3 a kill must lose something.
TEST(versions_kill, without_the_agreement_something_is_lost)
{
    std::mt19937_64 random(first_seed());
    Job job;
    job.is_separate = true, job.ranks = 3, job.without = Without::agreement;
    EXPECT_NE(kill_jobs(job, random, 500), "");
}

} // namespace
