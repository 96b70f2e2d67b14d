// tests/sync/team_test.cpp: teams, their regions, and what happens when a rank leaves.
#include "threads.hpp"

#include <thread>

TEST(team, knows_its_ranks)
{
    std::atomic<int> sum = 0;
    on_threads(5, [&](os::team &team) {
        EXPECT_EQ(team.size(), 5);
        EXPECT_TRUE(team.direct());
        sum += team.rank();
    });
    EXPECT_EQ(sum, 10);
}

TEST(team, of_a_single_rank_works)
{
    on_threads(1, [](os::team &team) {
        auto region = team.allocate(100);
        EXPECT_EQ(region.bytes(0), 100u);
        EXPECT_EQ(team.exchange(7), std::vector<int>{7});
    });
}

TEST(team, is_oversubscribed_when_there_are_fewer_cpus)
{
    cpu_set_t cpus;
    ASSERT_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
    on_threads(CPU_COUNT(&cpus), [](os::team &team) { EXPECT_FALSE(team.oversubscribed()); });
    on_threads(CPU_COUNT(&cpus) + 1, [](os::team &team) { EXPECT_TRUE(team.oversubscribed()); });
}

TEST(team, is_oversubscribed_when_ranks_are_bound_to_one_cpu)
{
    cpu_set_t cpus;
    ASSERT_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
    if (CPU_COUNT(&cpus) < 2)
        GTEST_SKIP() << "two CPUs are needed";
    cpu_set_t first;
    CPU_ZERO(&first);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&first) == 0; i++)
        if (CPU_ISSET(i, &cpus))
            CPU_SET(i, &first);
    os::thread_group group(2);
    auto bound = [&](int rank) {
        EXPECT_EQ(sched_setaffinity(0, sizeof(first), &first), 0);
        EXPECT_TRUE(group.join(rank).oversubscribed());
    };
    std::jthread first_rank(bound, 0), second_rank(bound, 1);
}

TEST(team, exchange_gives_all_values_by_rank)
{
    struct pair {
        int rank;
        double third;
    };
    on_threads(4, [](os::team &team) {
        for (int round = 0; round < 200; round++) {
            auto all = team.exchange(pair{team.rank() + round, team.rank() / 3.0});
            ASSERT_EQ(all.size(), 4u);
            for (int i = 0; i < 4; i++) {
                EXPECT_EQ(all[i].rank, i + round);
                EXPECT_EQ(all[i].third, i / 3.0);
            }
        }
    });
}

TEST(region, is_zeroed_aligned_and_of_the_size_that_each_rank_asked_for)
{
    on_threads(3, [](os::team &team) {
        auto region = team.allocate(1000 * team.rank());
        for (int i = 0; i < 3; i++) {
            ASSERT_EQ(region.bytes(i), 1000u * i);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.data(i)) % os::line_size, 0u);
            for (std::size_t b = 0; b < region.bytes(i); b++)
                ASSERT_EQ(region.data(i)[b], std::byte{});
        }
        team.exchange(0); // a barrier: all have read
    });
}

TEST(region, that_one_rank_wants_too_large_is_refused_to_all)
{
    on_threads(2, [](os::team &team) {
        for (std::size_t less : {0, 100, 200, 1000})
            EXPECT_THROW(team.allocate(team.rank() ? SIZE_MAX - less : 8), std::bad_alloc);
        EXPECT_EQ(team.allocate(8).bytes(0), 8u);
    });
}

TEST(region, shows_all_ranks_the_same_memory)
{
    on_threads(3, [](os::team &team) {
        auto region = team.allocate(sizeof(int));
        *region.at<int>(team.rank()) = 100 + team.rank();
        team.exchange(0);
        for (int i = 0; i < 3; i++)
            EXPECT_EQ(*region.at<int>(i), 100 + i);
    });
}

TEST(region, can_be_moved_and_made_again_and_again)
{
    on_threads(3, [](os::team &team) {
        auto region = team.allocate(8);
        for (int i = 0; i < 50; i++) {
            auto next = team.allocate(8 * i);
            region = std::move(next);
            EXPECT_EQ(region.bytes(0), 8u * i);
        }
    });
}

TEST(region, keeps_its_team)
{
    on_threads(2, [](os::team &team) {
        auto region = os::team(team).allocate(8);
        team = os::team(team);
        *region.at<int>(team.rank()) = 1;
    });
}

// Rank 0 gets the error, and names the rank.
static void expect_loss_of(int lost, void (*work)(os::team &))
{
    try {
        on_threads(3, work);
        ADD_FAILURE() << "no rank noticed";
    } catch (const os::peer_lost &loss) {
        EXPECT_EQ(loss.rank(), lost);
        EXPECT_NE(std::string(loss.what()).find("rank " + std::to_string(lost)), std::string::npos);
    }
}

TEST(team, ends_waits_with_an_error_when_a_rank_leaves)
{
    expect_loss_of(2, [](os::team &team) {
        if (team.rank() == 2)
            throw std::runtime_error("leaves");
        team.exchange(0);
    });
}

TEST(team, passes_a_loss_on_to_ranks_that_wait_for_the_rank_that_noticed)
{
    expect_loss_of(2, [](os::team &team) {
        auto flags = team.allocate(sizeof(os::flag));
        if (team.rank() == 2)
            throw std::runtime_error("leaves");
        // 0 waits for 1, 1 waits for 2.
        int next = team.rank() + 1;
        team.await(*flags.at<os::flag>(next), 1, next);
    });
}

TEST(team, ends_when_an_exception_ends_a_region_of_one_rank_although_that_catches_it)
{
    expect_loss_of(2, [](os::team &team) {
        try {
            auto region = team.allocate(8);
            if (team.rank() == 2)
                throw std::runtime_error("skips the end of the region");
        } catch (const std::runtime_error &) {
            EXPECT_EQ(team.rank(), 2); // not peer_lost: the end of a region does not throw
        }
        team.exchange(0);
    });
}

TEST(team, cannot_be_used_any_more_by_the_rank_whose_region_an_exception_ended)
{
    on_threads(1, [](os::team &team) {
        try {
            auto region = team.allocate(8);
            throw std::runtime_error("skips the end of the region");
        } catch (const std::runtime_error &) {
        }
        EXPECT_THROW(team.exchange(0), os::peer_lost);
        EXPECT_THROW(team.allocate(8), os::peer_lost);
    });
}

TEST(team, does_not_take_a_signal_for_a_loss_because_its_sender_left_then)
{
    std::atomic<int> seen = 0;
    try {
        on_threads(2, [&](os::team &team) {
            auto flags = team.allocate(sizeof(os::flag));
            if (team.rank() == 1) {
                team.signal(*flags.at<os::flag>(1), 5);
                throw std::logic_error("leaves");
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            seen = static_cast<int>(team.await(*flags.at<os::flag>(1), 5, 1));
        });
    } catch (const std::logic_error &) {
    }
    EXPECT_EQ(seen, 5);
}

template <class Wait> class waiting : public testing::Test
{
};
using policies = testing::Types<os::futex, os::adaptive>;
TYPED_TEST_SUITE(waiting, policies);

TYPED_TEST(waiting, orders_what_was_written_before_the_signal)
{
    on_threads(2, [](os::team &team) {
        auto memory = team.allocate(2 * sizeof(os::flag));
        auto own_flag = memory.at<os::flag>(team.rank());
        auto other_flag = memory.at<os::flag>(1 - team.rank());
        auto data = memory.at<long>(0, sizeof(os::flag));
        for (long i = 1; i <= 2000; i++) { // alternately
            if (team.rank() == i % 2)
                team.await<TypeParam>(*other_flag, i - 1, 1 - team.rank());
            EXPECT_TRUE(team.rank() != i % 2 || *data == i - 1);
            if (team.rank() == i % 2) {
                *data = i;
                team.signal<TypeParam>(*own_flag, i);
            }
        }
        team.exchange(0);
    });
}

TYPED_TEST(waiting, takes_a_rank_that_is_late_by_a_second)
{
    on_threads(3, [](os::team &team) {
        auto flags = team.allocate(sizeof(os::flag));
        if (team.rank() == 0) {
            std::this_thread::sleep_for(std::chrono::seconds(1));
            team.signal<TypeParam>(*flags.at<os::flag>(0), 1);
        } else
            team.await<TypeParam>(*flags.at<os::flag>(0), 1, 0);
        team.exchange(0);
    });
}

TYPED_TEST(waiting, ends_with_an_error_when_the_rank_leaves)
{
    EXPECT_THROW(on_threads(2,
                            [](os::team &team) {
                                auto flags = team.allocate(sizeof(os::flag));
                                if (team.rank() == 1)
                                    throw std::logic_error("leaves");
                                team.await<TypeParam>(*flags.at<os::flag>(1), 1, 1);
                            }),
                 os::peer_lost);
}
