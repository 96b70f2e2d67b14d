// bench/sync/sync.cpp: barrier and allreduce of onespace/sync beside those of the MPI.
//
// usage: mpiexec ... sync [-b BATCHES] [-t MILLISECONDS] [-o QUESTION,...]
// Questions: barrier allreduce mismatch (all by default).
//
// Rank 0 prints lines "QUESTION/VARIANT RANKS SECONDS", one per batch; a line counts the slowest
// rank's time. The variants are interleaved by batch, each after ten of our barriers, as in section
// 4.3 of the paper.
//   mismatch: 100 barriers of a kind, then the time between the first and the last rank to leave
//   barrier/limit: the round trip of a cache line between two ranks.
#include <functional>
#include <onespace/sync/collectives.hpp>
#include <onespace/sync/mpi.hpp>
#include <optional>

#include "../lib/bench.h"

namespace os = onespace::sync;

static int rank, ranks;
static bench_options options = {"barrier,allreduce,mismatch", 10, 0, 0.002};

// Our own barrier: where ranks share CPUs, a waiting rank must yield to the others, which not every
// MPI's does.
static std::optional<os::collectives<>> all_ranks;
static std::optional<os::barrier<>> our_barrier;

static double slowest(double seconds)
{
    return all_ranks->allreduce(seconds, os::maximum());
}

static void print(const std::string &what, double seconds)
{
    if (rank == 0)
        bench_print(what.c_str(), ranks, seconds);
}

struct candidate {
    std::string name;
    std::function<double(int)> time; // seconds of `count` calls
};

// A template, so that the call is inlined into the loop.
template <class Call> static candidate timed(const char *name, Call call)
{
    return {name, [call](int count) mutable {
                double start = seconds_now();
                for (int i = 0; i < count; i++)
                    call();
                return seconds_now() - start;
            }};
}

// The time per call of the slowest rank.
static double time_of(const candidate &operation, int count)
{
    for (int warm = 0; warm < 10; warm++)
        our_barrier->wait();
    double seconds = operation.time(count);
    our_barrier->wait();
    return slowest(seconds) / count;
}

// The number of calls per batch: 3 to 100,000.
static int calls_per_batch(const candidate &operation)
{
    double seconds = time_of(operation, 3);
    double count = options.batch_seconds / time_of(operation, seconds > 1e-4 ? 10 : 100);
    return count < 3 ? 3 : count > 100000 ? 100000 : int(count);
}

static void interleave(const std::string &question, std::vector<candidate> &variants)
{
    std::vector<int> counts;
    for (auto &operation : variants)
        counts.push_back(calls_per_batch(operation));
    for (int batch = 0; batch < options.batches; batch++)
        for (std::size_t i = 0; i < variants.size(); i++)
            print(question + "/" + variants[i].name, time_of(variants[i], counts[i]));
}

// The round trip of a cache line between two ranks.
class round_trip
{
  public:
    explicit round_trip(const os::team &of) : cells_(of.allocate(sizeof(os::flag)))
    {
    }
    void operator()()
    {
        auto *mine = cells_.at<os::flag>(rank), *other = cells_.at<os::flag>(!rank);
        round_++;
        if (rank == 0)
            mine->value.store(round_, std::memory_order_release);
        while (other->value.load(std::memory_order_acquire) < round_)
            os::relax();
        if (rank == 1)
            mine->value.store(round_, std::memory_order_release);
    }

  private:
    os::region cells_;
    std::uint64_t round_ = 0;
};

static void check(double sum, double expected)
{
    if (sum == expected)
        return;
    fprintf(stderr, "sync: rank %d: a sum is %g instead of %g\n", rank, sum, expected);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void barriers(const os::team &team)
{
    std::vector<candidate> all{timed("MPI", [] { MPI_Barrier(MPI_COMM_WORLD); }),
                               timed("sync", [ours = &*our_barrier] { ours->wait(); })};
    std::optional<round_trip> line;
    if (ranks == 2) {
        line.emplace(team);
        all.push_back(timed("limit", [&] { (*line)(); }));
    }
    interleave("barrier", all);
}

static void allreduces(const os::team &team)
{
    os::collectives<> ours(team);
    double mine = rank + 1, expected = ranks * (ranks + 1) / 2.0;
    auto by_mpi = [=] {
        double sum;
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        check(sum, expected);
    };
    auto by_sync = [&] { check(ours.allreduce(mine, std::plus<>()), expected); };
    std::vector<candidate> all{timed("MPI", by_mpi), timed("sync", by_sync)};
    interleave("allreduce", all);
}

static void measure_mismatch(const char *name, const std::function<void()> &barrier)
{
    for (int i = 0; i < 100; i++)
        barrier();
    double left = seconds_now(), first = -left, last = left;
    // At least one step of the clock, for ranks that leave together.
    print(std::string("mismatch-leave/") + name, std::max(slowest(last) + slowest(first), 1e-9));
}

static void mismatch(const os::team &team)
{
    os::punctual_barrier<> punctual(team);
    for (int batch = 0; batch < options.batches; batch++) {
        measure_mismatch("MPI", [] { MPI_Barrier(MPI_COMM_WORLD); });
        measure_mismatch("sync", [] { our_barrier->wait(); });
        measure_mismatch("punctual", [&] { punctual.wait(); });
    }
}

static int run(int argc, char **argv)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int option; (option = getopt(argc, argv, BENCH_OPTIONS)) != -1;)
        if (!bench_option(&options, option, optarg))
            return 2;
    os::team team = os::from_mpi(MPI_COMM_WORLD);
    all_ranks.emplace(team);
    our_barrier.emplace(team);
    if (bench_list_has(options.operations, "barrier"))
        barriers(team);
    if (bench_list_has(options.operations, "allreduce"))
        allreduces(team);
    if (bench_list_has(options.operations, "mismatch"))
        mismatch(team);
    our_barrier.reset();
    all_ranks.reset();
    return 0;
}

int main(int argc, char **argv)
{
    return bench_run_job(argc, argv, run);
}
