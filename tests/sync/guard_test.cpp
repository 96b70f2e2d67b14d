// tests/sync/guard_test.cpp: collective operations on much data, where ranks may not write to one
// another's memory (onespace run --guard).
//
// Needs no protection keys: the ranks' buffers are read-only at first, and the handler of the
// faults notes which rank has written to a page before it lets it. The program runs twice: with
// ONESPACE_GUARD set each rank writes to its own buffer only; without, others write there too,
// which shows that they would be noticed.
#include "threads.hpp"

#include <csignal>
#include <cstdlib>
#include <onespace/sync/collectives.hpp>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

constexpr int ranks = 3;
constexpr std::size_t count = 40000, page = 4096,
                      pages = (count * sizeof(double) + page - 1) / page, each = pages * page;

thread_local int self = -1;
std::byte *buffers;                           // of all ranks
std::atomic<unsigned> writers[ranks * pages]; // a bit for each rank

void note(int, siginfo_t *info, void *)
{
    auto at = static_cast<std::size_t>(static_cast<std::byte *>(info->si_addr) - buffers);
    if (at >= ranks * each || self < 0) {
        std::signal(SIGSEGV, SIG_DFL);
        return;
    }
    writers[at / page].fetch_or(1u << self);
    mprotect(buffers + at / page * page, page, PROT_READ | PROT_WRITE);
}

double value(int rank, std::size_t i)
{
    return rank + 1 + static_cast<double>(i % 5);
}

double sum_of(int operands, std::size_t i)
{
    double sum = 0;
    for (int rank = 0; rank < operands; rank++)
        sum += value(rank, i);
    return sum;
}

class guard : public testing::TestWithParam<bool> // in place
{
  protected:
    using member = os::detail::team_member<os::adaptive>;
    using engine = os::detail::engine<member>;

    void SetUp() override
    {
        if (sysconf(_SC_PAGESIZE) != static_cast<long>(page))
            GTEST_SKIP() << "pages of another size";
        void *memory =
            mmap(nullptr, ranks * each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        buffers = static_cast<std::byte *>(memory);
        for (int rank = 0; rank < ranks; rank++)
            for (std::size_t i = 0; i < count; i++)
                of(rank)[i] = value(rank, i);
        for (auto &one : writers)
            one = 0;
        mprotect(buffers, ranks * each, PROT_READ);
        struct sigaction action = {};
        action.sa_sigaction = note;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigaction(SIGSEGV, &action, &before_);
    }
    void TearDown() override
    {
        if (!buffers)
            return;
        sigaction(SIGSEGV, &before_, nullptr);
        munmap(buffers, ranks * each);
        buffers = nullptr;
    }
    static double *of(int rank)
    {
        return reinterpret_cast<double *>(buffers + rank * each);
    }
    // call(engine, in, out, combine) on each rank. `out` is the rank's buffer, `in` too or a copy.
    template <class Call> void run(Call call)
    {
        bool in_place = GetParam();
        auto add = [](void *into, const void *from, std::size_t size, bool) {
            for (std::size_t i = 0; i < size / sizeof(double); i++)
                static_cast<double *>(into)[i] += static_cast<const double *>(from)[i];
        };
        on_threads(ranks, [&](os::team &team) {
            self = team.rank();
            std::vector<double> in(of(self), of(self) + count);
            engine on(member(team), os::algorithm::automatic, 1024);
            call(on, in_place ? of(self) : in.data(), of(self), add);
        });
    }
    // All pages of that rank's buffer.
    unsigned writers_of(int rank) const
    {
        unsigned all = 0;
        for (std::size_t i = 0; i < pages; i++)
            all |= writers[rank * pages + i];
        return all;
    }
    void expect_sums(int rank, int operands) const
    {
        for (std::size_t i = 0; i < count; i++)
            ASSERT_EQ(of(rank)[i], sum_of(operands, i)) << "rank " << rank << ", " << i;
    }
    static constexpr std::size_t bytes = count * sizeof(double);
    static constexpr unsigned all_ranks = (1u << ranks) - 1;
    const bool is_guarded = std::getenv("ONESPACE_GUARD") != nullptr;

  private:
    struct sigaction before_ = {};
};
INSTANTIATE_TEST_SUITE_P(buffers, guard, testing::Bool(),
                         [](const auto &which) { return which.param ? "in_place" : "apart"; });

TEST_P(guard, reduce_writes_to_the_root_from_where_it_may)
{
    for (int root = 0; root < ranks; root++) {
        if (root) {
            TearDown();
            SetUp();
        }
        run([&](engine &on, const double *in, double *out, auto &add) {
            on.reduce(in, self == root ? out : nullptr, bytes, sizeof(double), add, true, root);
        });
        for (int rank = 0; rank < ranks; rank++)
            EXPECT_EQ(writers_of(rank), rank != root ? 0u : is_guarded ? 1u << root : all_ranks);
        expect_sums(root, ranks);
    }
}

TEST_P(guard, reduce_to_all_writes_to_each_from_where_it_may)
{
    run([](engine &on, const double *in, double *out, auto &add) {
        on.reduce(in, out, bytes, sizeof(double), add, true, engine::all_ranks);
    });
    for (int rank = 0; rank < ranks; rank++) {
        EXPECT_EQ(writers_of(rank), is_guarded ? 1u << rank : all_ranks);
        expect_sums(rank, ranks);
    }
}

TEST_P(guard, scan_writes_to_each_from_where_it_may)
{
    run([](engine &on, const double *in, double *out, auto &add) {
        on.scan(in, out, bytes, sizeof(double), add, false);
    });
    for (int rank = 0; rank < ranks; rank++) {
        EXPECT_EQ(writers_of(rank), is_guarded ? 1u << rank : all_ranks);
        expect_sums(rank, rank + 1);
    }
}

TEST_P(guard, exclusive_scan_leaves_the_first_rank_alone)
{
    run([](engine &on, const double *in, double *out, auto &add) {
        on.scan(in, out, bytes, sizeof(double), add, true);
    });
    EXPECT_EQ(writers_of(0), 0u);
    for (int rank = 1; rank < ranks; rank++) {
        EXPECT_EQ(writers_of(rank), is_guarded ? 1u << rank : all_ranks);
        expect_sums(rank, rank);
    }
}

TEST_P(guard, gather_writes_to_the_root_alone)
{
    constexpr std::size_t part = count / ranks;
    for (int root = 0; root < ranks; root++) {
        if (root) {
            TearDown();
            SetUp();
        }
        run([&](engine &on, const double *in, double *out, auto &) {
            on.gather(in + self * part, out, part * sizeof(double), root);
        });
        for (int rank = 0; rank < ranks; rank++)
            EXPECT_EQ(writers_of(rank), rank == root ? 1u << root : 0u);
        for (std::size_t i = 0; i < ranks * part; i++)
            ASSERT_EQ(of(root)[i], value(static_cast<int>(i / part), i)) << i;
    }
}

} // namespace
