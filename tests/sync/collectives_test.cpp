// tests/sync/collectives_test.cpp: each collective operation, with each algorithm.
#include "threads.hpp"

#include <numeric>
#include <onespace/sync/collectives.hpp>
#include <onespace/sync/slots.hpp>

namespace
{

// x -> a x + b modulo a prime: composition is associative and not commutative.
struct affine {
    std::uint64_t a, b;
    bool operator==(const affine &) const = default;
};
affine compose(affine first, affine second)
{
    constexpr std::uint64_t prime = 2147483647;
    return {first.a * second.a % prime, (first.b * second.a + second.b) % prime};
}
affine of_rank(int rank, std::uint64_t salt = 0)
{
    return {3 + rank * 7 + salt, 11 + rank * rank + salt * 5};
}
affine of_all(int size, std::uint64_t salt = 0)
{
    affine all = of_rank(0, salt);
    for (int i = 1; i < size; i++)
        all = compose(all, of_rank(i, salt));
    return all;
}

struct way {
    os::algorithm how;
    bool direct;
};
class collectives : public testing::TestWithParam<way>
{
  protected:
    // work(team, collectives) on teams of several sizes.
    void on_teams(const std::function<void(os::team &, os::collectives<> &)> &work)
    {
        for (int size : {1, 2, 3, 4, 6, 9})
            on_threads(
                size,
                [&](os::team &team) {
                    os::collectives<> all(team, GetParam().how, 1024);
                    work(team, all);
                },
                GetParam().direct);
    }
};

using os::algorithm;
INSTANTIATE_TEST_SUITE_P(ways, collectives,
                         testing::Values(way{algorithm::automatic, true},
                                         way{algorithm::flat, false},
                                         way{algorithm::doubling, false},
                                         way{algorithm::tree, false}, way{algorithm::large, false},
                                         way{algorithm::large, true}));

TEST_P(collectives, allreduce_sums_values)
{
    on_teams([](os::team &team, auto &all) {
        int size = team.size();
        for (int round = 0; round < 30; round++)
            EXPECT_EQ(all.allreduce(team.rank() + round, std::plus<>()),
                      size * (size - 1) / 2 + size * round);
    });
}

TEST_P(collectives, allreduce_keeps_the_order_of_ranks)
{
    on_teams([](os::team &team, auto &all) {
        for (std::uint64_t salt = 0; salt < 10; salt++)
            EXPECT_EQ(all.allreduce(of_rank(team.rank(), salt), compose),
                      of_all(team.size(), salt));
    });
}

TEST_P(collectives, allreduce_gives_all_ranks_the_same_bits)
{
    on_teams([](os::team &team, auto &all) {
        double sum = all.allreduce(1.0 / (team.rank() + 3), std::plus<>());
        for (double other : all.allgather(sum))
            EXPECT_EQ(std::bit_cast<std::uint64_t>(other), std::bit_cast<std::uint64_t>(sum));
    });
}

TEST_P(collectives, allreduce_takes_spans_of_all_lengths)
{
    on_teams([](os::team &team, auto &all) {
        for (std::size_t length : {0, 1, 7, 8, 100, 1000, 1023}) {
            std::vector<affine> given(length), result(length);
            for (std::size_t i = 0; i < length; i++)
                given[i] = of_rank(team.rank(), i);
            all.allreduce(std::span<const affine>(given), std::span(result), compose);
            for (std::size_t i = 0; i < length; i++)
                ASSERT_EQ(result[i], of_all(team.size(), i)) << i << " of " << length;
            all.allreduce(std::span<const affine>(given), std::span(given), compose); // in place
            EXPECT_EQ(given, result);
        }
    });
}

TEST_P(collectives, reduce_gives_the_root_the_result)
{
    on_teams([](os::team &team, auto &all) {
        for (int root = 0; root < team.size(); root++)
            for (std::size_t length : {1, 5, 500}) {
                std::vector<affine> given(length, of_rank(team.rank(), length)), result(length);
                all.reduce(std::span<const affine>(given), std::span(result), compose, root);
                EXPECT_EQ(given, std::vector(length, of_rank(team.rank(), length)));
                if (team.rank() == root) {
                    EXPECT_EQ(result, std::vector(length, of_all(team.size(), length)));
                }
                long sum = all.reduce(1L, std::plus<>(), root);
                EXPECT_EQ(sum, team.rank() == root ? team.size() : 1);
            }
    });
}

TEST_P(collectives, broadcast_gives_all_what_the_root_has)
{
    on_teams([](os::team &team, auto &all) {
        for (int root = 0; root < team.size(); root++)
            for (std::size_t length : {1, 14, 15, 600}) {
                std::vector<long> data(length, team.rank() == root ? 100 + root : -1);
                all.broadcast(std::span(data), root);
                EXPECT_EQ(data, std::vector<long>(length, 100 + root));
                EXPECT_EQ(all.broadcast(team.rank(), root), root);
            }
    });
}

TEST_P(collectives, gathers_are_by_rank)
{
    on_teams([](os::team &team, auto &all) {
        int size = team.size(), rank = team.rank();
        for (std::size_t length : {1, 10, 300, 5000}) {
            std::vector<int> given(length, rank), expected, found(size * length, -1);
            for (int i = 0; i < size; i++)
                expected.insert(expected.end(), length, i);
            all.allgather(std::span<const int>(given), std::span(found));
            EXPECT_EQ(found, expected);
            for (int root = 0; root < size; root++) {
                std::vector<int> there(rank == root ? size * length : 0, -1);
                all.gather(std::span<const int>(given), std::span(there), root);
                EXPECT_EQ(there, rank == root ? expected : std::vector<int>());
            }
        }
    });
}

TEST_P(collectives, scatter_gives_each_its_part)
{
    on_teams([](os::team &team, auto &all) {
        int size = team.size(), rank = team.rank();
        for (int root = 0; root < size; root++)
            for (std::size_t length : {1, 10, 300}) {
                std::vector<int> parts(rank == root ? size * length : 0), given(length, -1);
                std::iota(parts.begin(), parts.end(), root);
                all.scatter(std::span<const int>(parts), std::span(given), root);
                std::vector<int> expected(length);
                std::iota(expected.begin(), expected.end(), root + rank * length);
                EXPECT_EQ(given, expected);
            }
    });
}

// A root can run ahead of its readers; before it reuses a slot it must wait for the slowest.
TEST_P(collectives, broadcasts_do_not_overtake_readers)
{
    on_teams([](os::team &team, auto &all) {
        for (int round = 0; round < 200; round++) {
            if (round % 16 == team.rank())
                std::this_thread::yield();
            EXPECT_EQ(all.broadcast(round * (team.rank() == 0), 0), round);
        }
    });
}

TEST_P(collectives, hold_under_random_operations_and_delays)
{
    on_teams([](os::team &team, auto &all) {
        std::uint64_t common = 88172645463325252u, own = 7 + team.rank();
        auto next = [](std::uint64_t &random) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            return random;
        };
        int size = team.size(), rank = team.rank();
        for (int round = 0; round < 100; round++) {
            if (next(own) % 8 == 0)
                std::this_thread::sleep_for(std::chrono::microseconds(own / 8 % 100));
            std::uint64_t what = next(common);
            int root = static_cast<int>(what / 8 % size);
            std::size_t length = what / 1024 % 4 ? 1 + what / 4096 % 7 : 200;
            std::vector<affine> given(length, of_rank(rank, round)), found(length);
            if (what % 8 < 3) {
                all.allreduce(std::span<const affine>(given), std::span(found), compose);
                ASSERT_EQ(found[length - 1], of_all(size, round));
            } else if (what % 8 < 5) {
                all.broadcast(std::span(given), root);
                ASSERT_EQ(given[length - 1], of_rank(root, round));
            } else if (what % 8 < 7) {
                all.reduce(std::span<const affine>(given), std::span(found), compose, root);
                if (rank == root) {
                    ASSERT_EQ(found[0], of_all(size, round));
                }
            } else {
                length *= length == 200 ? 10 : 1; // more than is taken by the root
                given.resize(length, given[0]);
                found.resize(length * size);
                all.gather(std::span<const affine>(given), std::span(found), root);
                if (rank == root) {
                    ASSERT_EQ(found[length * size - 1], of_rank(size - 1, round));
                }
            }
        }
    });
}

TEST_P(collectives, end_with_an_error_when_a_rank_leaves)
{
    std::atomic<int> noticed = 0;
    auto work = [&](os::team &team) {
        os::collectives<> all(team, GetParam().how);
        all.allreduce(1, std::plus<>());
        if (team.rank() == 2)
            throw std::logic_error("leaves");
        try {
            for (int i = 0; i < 10; i++)
                all.allreduce(1, std::plus<>());
        } catch (const os::peer_lost &) {
            noticed++;
            throw;
        }
    };
    EXPECT_THROW(on_threads(4, work, GetParam().direct), os::peer_lost);
    EXPECT_EQ(noticed, 3);
}

TEST(collective, minimum_and_maximum_are_found)
{
    on_threads(3, [](os::team &team) {
        os::collectives<os::futex> all(team);
        EXPECT_EQ(all.allreduce(team.rank() - 1.5, os::minimum()), -1.5);
        EXPECT_EQ(all.allreduce(team.rank() - 1.5, os::maximum()), 0.5);
    });
}

TEST(collective, says_which_spans_do_not_fit)
{
    on_threads(2, [](os::team &team) {
        os::collectives<> all(team);
        std::vector<int> two(2), three(3);
        EXPECT_THROW(all.allreduce(std::span<const int>(two), std::span(three), std::plus<>()),
                     std::invalid_argument);
        EXPECT_THROW(all.allgather(std::span<const int>(two), std::span(three)),
                     std::invalid_argument);
    });
}

TEST(collective, release_comes_after_all_have_arrived)
{
    std::atomic<int> arrived = 0;
    std::atomic<bool> released = false;
    on_threads(3, [&](os::team &team) {
        os::collectives<> all(team);
        if (team.rank() == 2)
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        arrived++;
        all.arrive_at(0);
        if (team.rank() == 0) {
            EXPECT_EQ(arrived, 3);
            released = true;
        }
        all.release_from(0);
        EXPECT_TRUE(released);
    });
}

// A rank of three that one thread plays: where it would wait, `would_wait` is thrown.
struct would_wait {
};
struct played_member {
    using flag = os::flag;
    struct region {
        std::vector<std::vector<flag>> *ranks;
        template <class T> T *at(int rank, std::size_t offset = 0) const
        {
            return reinterpret_cast<T *>(reinterpret_cast<std::byte *>((*ranks)[rank].data()) +
                                         offset);
        }
    };
    using buffer = std::vector<std::byte>;
    struct links {
        int parent;
        std::vector<int> children;
    };
    int own;
    std::vector<std::vector<flag>> *ranks;

    int rank() const
    {
        return own;
    }
    int size() const
    {
        return static_cast<int>(ranks->size());
    }
    bool direct() const
    {
        return true;
    }
    bool oversubscribed() const
    {
        return false;
    }
    bool guarded() const
    {
        return false;
    }
    void signal(flag &what, std::uint64_t value) const
    {
        what.value = value;
    }
    std::uint64_t await(flag &what, std::uint64_t value, int) const
    {
        if (what.value < value)
            throw would_wait();
        return what.value;
    }
    bool lost() const
    {
        return false;
    }
    void mismatch(int) const
    {
    }
    region allocate(std::size_t) const
    {
        return {ranks};
    }
    links links_from(int) const
    {
        return {-1, {}};
    }
};

TEST(slots, failure_does_not_say_that_all_ranks_have_begun)
{
    using slots = os::detail::slots<played_member>;
    auto shape = slots::shape_for(true, false);
    std::size_t flags = slots::memory_for(1, shape) / sizeof(played_member::flag) + 1;
    std::vector<std::vector<played_member::flag>> memory;
    for (int rank = 0; rank < 3; rank++)
        memory.emplace_back(flags);
    slots first({0, &memory}, 1), fails({1, &memory}, 1); // the third rank is late
    auto broadcast = [&](std::uint64_t number) {
        first.begin();
        first.write(0, &number, sizeof(number));
        first.end(false);
    };
    broadcast(1);
    for (int operation = 1; operation <= 2; operation++) {
        fails.begin();
        fails.fail();
        fails.end(false);
    }
    first.begin();
    first.read(1, 0, 0);
    EXPECT_TRUE(first.is_failure());
    first.write(0, nullptr, 0);
    first.end(true);
    for (std::uint64_t number = 3; number <= shape.depth; number++)
        broadcast(number);
    EXPECT_THROW(first.begin(), would_wait); // the third rank has not read operation 1
}

} // namespace
