// tests/sync/barrier_test.cpp: each barrier, with each wait policy.
#include "threads.hpp"

#include <onespace/sync/collectives.hpp>

template <class Barrier> class barriers : public testing::Test
{
};

template <class Wait> struct of_two : os::barrier<Wait> {
    explicit of_two(const os::team &team) : os::barrier<Wait>(team, 2)
    {
    }
};

using kinds =
    testing::Types<of_two<os::adaptive>, of_two<os::futex>, os::barrier<>, os::barrier<os::futex>,
                   os::punctual_barrier<>, os::punctual_barrier<os::futex>>;
TYPED_TEST_SUITE(barriers, kinds);

// Writes before the barrier are visible to all ranks after it, and later ones are not. The
// variables are plain, so that the sanitizer reports any missing order.
template <class Barrier> void check_rounds(int size, int rounds, bool are_late = false)
{
    on_threads(size, [&](os::team &team) {
        auto cells = team.allocate(sizeof(long));
        Barrier barrier(team);
        std::uint64_t random = 88172645463325252u + team.rank();
        for (long round = 1; round <= rounds; round++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            if (are_late && random % 8 == 0)
                std::this_thread::sleep_for(std::chrono::microseconds(random / 8 % 200));
            else if (are_late && random % 8 == 1)
                std::this_thread::yield();
            *cells.at<long>(team.rank()) = round;
            barrier.wait();
            for (int i = 0; i < size; i++)
                ASSERT_EQ(*cells.at<long>(i), round)
                    << "of rank " << i << ", seen by " << team.rank();
            barrier.wait();
        }
    });
}

TYPED_TEST(barriers, keep_ranks_in_step)
{
    for (int size : {1, 2, 3, 4, 5, 7, 8, 12})
        check_rounds<TypeParam>(size, size < 4 ? 200 : 50);
}

TYPED_TEST(barriers, hold_under_random_delays)
{
    check_rounds<TypeParam>(4, 100, true);
}

TYPED_TEST(barriers, wait_for_the_last)
{
    std::atomic<int> arrived = 0;
    on_threads(4, [&](os::team &team) {
        TypeParam barrier(team);
        if (team.rank() == 3)
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
        arrived++;
        barrier.wait();
        EXPECT_EQ(arrived, 4);
    });
}

TYPED_TEST(barriers, end_with_an_error_when_a_rank_leaves)
{
    std::atomic<int> noticed = 0;
    EXPECT_THROW(on_threads(4,
                            [&](os::team &team) {
                                TypeParam barrier(team);
                                barrier.wait();
                                if (team.rank() == 2)
                                    throw std::logic_error("leaves");
                                try {
                                    barrier.wait();
                                } catch (const os::peer_lost &loss) {
                                    EXPECT_EQ(loss.rank(), 2);
                                    noticed++;
                                    throw;
                                }
                            }),
                 os::peer_lost);
    EXPECT_EQ(noticed, 3);
}

// Correctness only; bench/sync measures how punctual it is.
TEST(punctual_barrier, is_left_after_its_delay_on_every_rank)
{
    on_threads(3, [](os::team &team) {
        os::punctual_barrier<> barrier(team);
        auto delay = team.exchange(barrier.delay());
        EXPECT_EQ(delay[0], delay[team.rank()]);
        EXPECT_GT(delay[0].count(), 0);
        for (int round = 0; round < 50; round++) {
            auto arrival = std::chrono::steady_clock::now();
            barrier.wait();
            EXPECT_GE(std::chrono::steady_clock::now() - arrival, barrier.delay());
        }
    });
}
