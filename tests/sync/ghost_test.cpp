// tests/sync/ghost_test.cpp: ghost updates among threads, which read each other's vectors, and
// through buffers, as between processes.
#include "ghost_mesh.hpp"
#include "threads.hpp"

#include <onespace/sync/ghost.hpp>

using neighbours = std::vector<os::ghost_neighbour>;
using word_plan = os::ghost_plan<std::uint64_t>;
static constexpr auto both = {os::ghost_path::direct, os::ghost_path::buffers};

static void be_late(std::mt19937 &random)
{
    if (auto dice = random() % 8; dice == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    else if (dice < 3)
        std::this_thread::yield();
}

template <class Wait> class ghosts : public testing::Test
{
};
using kinds = testing::Types<os::adaptive, os::futex>;
TYPED_TEST_SUITE(ghosts, kinds);

// Random delays of each rank before, within and after updates.
template <class Plan>
void check_random(int size, unsigned seed, os::ghost_path path, std::size_t values)
{
    constexpr int updates = 60;
    auto parts = random_parts(size, seed);
    auto expected = reference(parts, values, updates);
    on_threads(size, [&](os::team &team) {
        const auto &part = parts[team.rank()];
        Plan plan(team, part.lists, {part.ids.size(), values, part.ids}, path);
        if (path != os::ghost_path::automatic) {
            EXPECT_EQ(plan.direct(), path == os::ghost_path::direct);
        }
        auto vector = first_values(part, values);
        std::mt19937 random(seed + team.rank());
        for (int i = 0; i < updates; i++) {
            be_late(random);
            plan.begin(vector);
            be_late(random);
            plan.end();
            step(part, values, vector);
        }
        for (std::size_t i = 0; i < part.own * values; i++)
            ASSERT_EQ(vector[i], expected[team.rank()][i])
                << size << " ranks, seed " << seed << ", value " << i << " of rank " << team.rank();
    });
}

TYPED_TEST(ghosts, of_random_plans_are_as_computed_by_one_rank)
{
    for (int size = 1; size <= 6; size++)
        for (unsigned seed = 0; seed < 3; seed++)
            for (auto path : both)
                check_random<os::ghost_plan<std::uint64_t, TypeParam>>(size, 10 * size + seed, path,
                                                                       1 + seed % 3);
}

TEST(ghost_update, brings_large_lists_by_every_kind_of_buffer)
{
    for (unsigned seed = 0; seed < 4; seed++)
        for (auto path : {os::ghost_path::streamed, os::ghost_path::ring})
            check_random<word_plan>(2, seed, path, 60 + seed);
}

TEST(ghost_update, takes_one_path_on_all_ranks_when_it_may_choose)
{
    for (unsigned seed = 0; seed < 4; seed++)
        check_random<word_plan>(2, seed, os::ghost_path::automatic, 60 + seed);
}

// Rank 0 sends its point 0 to rank 1, which sends nothing back.
static neighbours one_way(const os::team &team)
{
    if (team.rank() == 0)
        return {{1, {0}, {}}};
    return {{0, {}, {0}}};
}

TEST(ghost_buffers, let_the_writer_be_two_updates_ahead_and_no_more)
{
    std::atomic<int> done = 0;
    on_threads(2, [&](os::team &team) {
        word_plan plan(team, one_way(team), {1}, os::ghost_path::buffers);
        for (std::uint64_t k = 1; k <= 6; k++) {
            ghost_vector vector{team.rank() == 0 ? k : 0};
            if (team.rank() == 1) { // lets the writer run as far ahead as it can
                while (done < std::min<int>(k + 1, 6))
                    std::this_thread::yield();
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                EXPECT_EQ(done, std::min<int>(k + 1, 6));
            }
            plan.update(vector);
            EXPECT_EQ(vector[0], k); // although the buffers have held k + 1
            done += team.rank() == 0;
        }
    });
}

TEST(ghost_direct, end_waits_for_the_reader_and_then_the_vector_is_free)
{
    std::atomic<int> done = 0;
    on_threads(2, [&](os::team &team) {
        word_plan plan(team, one_way(team), {1}, os::ghost_path::direct);
        for (int k = 1; k <= 5; k++) {
            ghost_vector vector{team.rank() == 0 ? k + 100u : 0}; // a different vector each time
            if (team.rank() == 1) {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                EXPECT_EQ(done, k - 1);
            }
            plan.begin(vector);
            plan.end();
            EXPECT_EQ(vector[0], k + 100u);
            vector[0] = 0;
            done += team.rank() == 0;
            while (done < k)
                std::this_thread::yield();
        }
    });
}

// A ring: each rank sends its point 0 to the next and has the ghost of the previous one.
static neighbours ring(const os::team &team)
{
    int size = team.size(), next = (team.rank() + 1) % size,
        before = (team.rank() + size - 1) % size;
    if (size == 2)
        return {{next, {0}, {2}}};
    return {{next, {0}, {}}, {before, {}, {2}}};
}

TEST(ghost_update, takes_a_reader_that_is_late_by_far)
{
    for (auto path : both)
        on_threads(3, [&](os::team &team) {
            word_plan plan(team, ring(team), {3}, path);
            for (std::uint64_t k = 1; k <= 4; k++) {
                ghost_vector vector{10 * k + team.rank(), 0, 0};
                if (team.rank() == 1 && k == 2)
                    std::this_thread::sleep_for(std::chrono::milliseconds(300));
                plan.update(vector);
                EXPECT_EQ(vector[2], 10 * k + (team.rank() + 2) % 3);
            }
        });
}

TEST(ghost_update, overlaps_with_work_on_other_points)
{
    for (auto path : both)
        on_threads(3, [&](os::team &team) {
            word_plan plan(team, ring(team), {3}, path);
            ghost_vector vector(3);
            for (std::uint64_t k = 1; k <= 200; k++) {
                vector[0] = 10 * k + team.rank();
                plan.begin(vector);
                vector[1] += vector[0]; // point 0 may be read, point 1 be written
                plan.end();
                ASSERT_EQ(vector[2], 10 * k + (team.rank() + 2) % 3);
            }
            EXPECT_EQ(vector[1], 10u * 200 * 201 / 2 + 200 * team.rank());
        });
}

TEST(ghost_update, serves_two_plans_alternately)
{
    for (auto path : both)
        on_threads(2, [&](os::team &team) {
            word_plan points(team, ring(team), {3}, path), pairs(team, ring(team), {3, 2}, path);
            ghost_vector small(3), large(6);
            for (std::uint64_t k = 1; k <= 100; k++) {
                small[0] = k + team.rank(), large[0] = 2 * k, large[1] = 3 * k + team.rank();
                points.begin(small);
                pairs.begin(large);
                points.end();
                pairs.end();
                ASSERT_EQ(small[2], k + 1 - team.rank());
                ASSERT_EQ(large[4], 2 * k);
                ASSERT_EQ(large[5], 3 * k + 1 - team.rank());
            }
        });
}

TEST(ghost_update, moves_any_trivially_copyable_type)
{
    struct mixed {
        char name[3];
        double value;
    };
    for (auto path : both)
        on_threads(2, [&](os::team &team) {
            os::ghost_plan<mixed> plan(team, ring(team), {3}, path);
            std::vector<mixed> vector(3);
            vector[0] = {{'a', static_cast<char>('0' + team.rank()), 0}, team.rank() / 3.0};
            plan.update(vector);
            EXPECT_EQ(vector[2].name[1], '1' - team.rank());
            EXPECT_EQ(vector[2].value, (1 - team.rank()) / 3.0);
        });
}

TEST(ghost_update, uses_buffers_when_one_rank_asks_for_them)
{
    on_threads(2, [](os::team &team) {
        word_plan plan(team, ring(team), {3},
                       team.rank() ? os::ghost_path::buffers : os::ghost_path::automatic);
        EXPECT_FALSE(plan.direct());
        ghost_vector vector{team.rank() + 5u, 0, 0};
        plan.update(vector);
        EXPECT_EQ(vector[2], 6u - team.rank());
    });
}

TEST(ghost_update, refuses_what_does_not_fit_the_plan)
{
    on_threads(1, [](os::team &team) {
        word_plan plan(team, {}, {3});
        ghost_vector right(3), wrong(4);
        EXPECT_THROW(plan.update(wrong), std::invalid_argument);
        EXPECT_THROW(plan.end(), std::logic_error);
        plan.begin(right);
        EXPECT_THROW(plan.begin(right), std::logic_error);
        plan.end();
    });
}

// All others get the error, including those that wait for a rank that itself waits for the lost
// one.
TEST(ghost_update, ends_with_an_error_when_a_rank_leaves)
{
    for (auto path : both) {
        std::atomic<int> noticed = 0;
        auto work = [&](os::team &team) {
            word_plan plan(team, ring(team), {3}, path);
            ghost_vector vector(3);
            plan.update(vector);
            if (team.rank() == 2)
                throw std::logic_error("leaves");
            try {
                for (;;)
                    plan.update(vector);
            } catch (const os::peer_lost &loss) {
                EXPECT_EQ(loss.rank(), 2);
                noticed++;
                throw;
            }
        };
        EXPECT_THROW(on_threads(5, work), os::peer_lost);
        EXPECT_EQ(noticed, 4);
    }
}

// Late ranks still read the vector of a rank that has found a peer lost: it stays valid until they
// have finished.
TEST(ghost_direct, keeps_the_vector_for_late_readers_when_another_is_lost)
{
    std::atomic<int> ended = 0;
    auto work = [&](os::team &team) {
        // 0 writes to 1 and reads from 2.
        neighbours all[] = {{{1, {0}, {}}, {2, {}, {1}}}, {{0, {}, {0}}}, {{0, {0}, {}}}};
        auto vector = std::make_unique<ghost_vector>(2, 7);
        word_plan plan(team, all[team.rank()], {2}, os::ghost_path::direct);
        team.exchange(0);
        if (team.rank() == 2)
            throw std::logic_error("leaves");
        plan.begin(*vector);
        if (team.rank() == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            EXPECT_EQ(ended, 0);
        }
        try {
            plan.end();
        } catch (const os::peer_lost &loss) {
            EXPECT_EQ(team.rank(), 0);
            EXPECT_EQ(loss.rank(), 2);
        }
        ended++;
        vector.reset();
        throw std::logic_error("the team is no longer usable");
    };
    EXPECT_THROW(on_threads(3, work), std::logic_error);
    EXPECT_EQ(ended, 2);
}

// Three ranks; each has points 0 to 4, of which 3 and 4 are ghosts of the others' point 0.
struct ghost_case {
    neighbours lists = {};
    std::vector<std::int64_t> ids = {};
    std::size_t values = 1;
};
static ghost_case good(int rank)
{
    int next = (rank + 1) % 3, last = (rank + 2) % 3;
    return {{{next, {0}, {3}}, {last, {0}, {4}}}, {rank, -1, -2, next, last}};
}

struct ghost_fault {
    const char *name;
    int spoilt; // the rank whose case `spoil` changes
    void (*spoil)(ghost_case &of);
    int rank, neighbour, index; // that the error is about
    const char *text;
};
static void PrintTo(const ghost_fault &fault, std::ostream *out)
{
    *out << fault.name;
}
static const ghost_fault faults[] = {
    {"neighbour_that_does_not_exist", 1, [](auto &of) { of.lists[0].rank = 3; }, 1, 3, -1,
     "rank 1 lists neighbour 3, but the ranks are 0 to 2"},
    {"rank_that_lists_itself", 1, [](auto &of) { of.lists[0].rank = 1; }, 1, 1, -1,
     "rank 1 lists itself"},
    {"neighbour_listed_twice", 2,
     [](auto &of) {
         of.lists.push_back({0, {1}, {}});
     },
     2, 0, -1, "rank 2 lists rank 0 twice"},
    {"wrong_number_of_ids", 2, [](auto &of) { of.ids.pop_back(); }, 2, -1, -1,
     "rank 2 gives 4 ids for 5 points"},
    {"sent_point_out_of_range", 0, [](auto &of) { of.lists[1].send[0] = 5; }, 0, 2, 0,
     "rank 0, entry 0 of the send list for rank 2 is point 5, but the vector has 5"},
    {"received_point_out_of_range", 0, [](auto &of) { of.lists[1].receive[0] = -1; }, 0, 2, 0,
     "rank 0, entry 0 of the receive list for rank 2 is point -1"},
    {"ghost_with_two_sources", 1, [](auto &of) { of.lists[1].receive[0] = 3; }, 1, 0, 0,
     "is point 3, which an earlier entry receives already"},
    {"ghost_that_is_sent_on", 1, [](auto &of) { of.lists[0].send[0] = 4; }, 1, 2, 0,
     "rank 1, entry 0 of the send list for rank 2 is point 4, which is a ghost there"},
    {"points_of_different_sizes", 2, [](auto &of) { of.values = 2; }, 2, 0, -1,
     "rank 2 has points of 16 bytes, rank 0 of 8"},
    {"point_that_is_not_expected", 1, [](auto &of) { of.lists[0].send.push_back(1); }, 1, 2, 1,
     "rank 1 sends 2 points to rank 2, which expects 1 from it: entry 1"},
    {"point_that_is_not_sent", 1, [](auto &of) { of.lists[0].receive.push_back(2); }, 2, 1, 1,
     "rank 2 sends 1 points to rank 1, which expects 2 from it"},
    {"neighbour_that_does_not_list_the_rank", 1, [](auto &of) { of.lists.pop_back(); }, 0, 1, 0,
     "rank 0 sends 1 points to rank 1, which expects 0 from it"},
    {"lists_that_mean_different_points", 1, [](auto &of) { of.lists[0].send[0] = 2; }, 1, 2, 0,
     "rank 1, entry 0 of the send list for rank 2 is the point with id -2, but rank 2 expects that "
     "with id 1"},
};

class ghost_faults : public testing::TestWithParam<ghost_fault>
{
};
INSTANTIATE_TEST_SUITE_P(of, ghost_faults, testing::ValuesIn(faults),
                         [](auto &tested) { return std::string(tested.param.name); });

TEST_P(ghost_faults, are_errors_on_all_ranks_which_can_continue)
{
    auto &fault = GetParam();
    on_threads(3, [&](os::team &team) {
        auto lists = good(team.rank());
        if (team.rank() == fault.spoilt)
            fault.spoil(lists);
        try {
            word_plan(team, lists.lists, {5, lists.values, lists.ids});
            ADD_FAILURE() << "rank " << team.rank() << " found nothing wrong";
        } catch (const os::ghost_error &error) {
            EXPECT_EQ(error.rank(), fault.rank);
            EXPECT_EQ(error.neighbour(), fault.neighbour);
            EXPECT_EQ(error.index(), fault.index);
            EXPECT_NE(std::string(error.what()).find(fault.text), std::string::npos)
                << error.what();
        }
        auto right = good(team.rank());
        word_plan plan(team, right.lists, {5, 1, right.ids});
        ghost_vector vector{team.rank() + 1u, 0, 0, 0, 0};
        plan.update(vector);
        EXPECT_EQ(vector[3], (team.rank() + 1) % 3 + 1u);
        EXPECT_EQ(vector[4], (team.rank() + 2) % 3 + 1u);
    });
}
