// bench/sync/sync.cpp: barrier, allreduce and dot product of onespace/sync beside those of the MPI.
//
// usage: mpiexec ... sync [-b BATCHES] [-t MILLISECONDS] [-s SIZE,SIZE...] [-o QUESTION,...]
// Questions: barrier allreduce mismatch dot (all by default; on several nodes the first two).
//
// Rank 0 prints lines "QUESTION/VARIANT X SECONDS", one per batch; a line counts the slowest rank's
// time. The variants are interleaved by batch, each after ten of our barriers, as in section 4.3 of
// the paper. X is the number of ranks; for dot, the floats per rank.
//   mismatch: 100 barriers of a kind, then the time between the first and the last rank to leave
//   barrier/limit: the round trip of a cache line between two ranks.
//   dot/limit: the same without a reduction. Lines "dot/..." give the time of one product.
#include <functional>
#include <onespace/sync/cluster.hpp>
#include <optional>

#include "../lib/bench.h"

namespace os = onespace::sync;

static int rank, ranks;
static bench_options options = {"barrier,allreduce,mismatch,dot", 10, 0, 0.002};
static std::vector<int> sizes{64, 1024, 16384, 262144};

// Our own barrier: where ranks share CPUs, a waiting rank must yield to the others, which not every
// MPI's does.
static std::optional<os::cluster_collectives<>> all_ranks;

static double slowest(double seconds)
{
    return all_ranks->allreduce(seconds, os::maximum());
}

static void print(const std::string &what, int x, double seconds)
{
    if (rank == 0)
        bench_print(what.c_str(), x, seconds);
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
template <class Barrier>
static double time_of(const candidate &operation, int count, Barrier &barrier)
{
    for (int warm = 0; warm < 10; warm++)
        barrier();
    double seconds = operation.time(count);
    barrier();
    return slowest(seconds) / count;
}

// The number of calls per batch: 3 to 100,000.
template <class Barrier> static int calls_per_batch(const candidate &operation, Barrier &barrier)
{
    double seconds = time_of(operation, 3, barrier);
    double count = options.batch_seconds / time_of(operation, seconds > 1e-4 ? 10 : 100, barrier);
    return count < 3 ? 3 : count > 100000 ? 100000 : int(count);
}

template <class Barrier>
static void interleave(const char *question, int x, Barrier barrier,
                       std::vector<candidate> &variants)
{
    std::vector<int> counts;
    for (auto &operation : variants)
        counts.push_back(calls_per_batch(operation, barrier));
    for (int batch = 0; batch < options.batches; batch++)
        for (std::size_t i = 0; i < variants.size(); i++)
            print(std::string(question) + "/" + variants[i].name, x,
                  time_of(variants[i], counts[i], barrier));
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

// Figures 10 and 18 to 21. `ours`: the barrier of the ranks of a node, or of several.
template <class Barrier> static void barriers(Barrier ours, const os::team *node)
{
    std::vector<candidate> all{timed("MPI", [] { MPI_Barrier(MPI_COMM_WORLD); }),
                               timed("sync", ours)};
    std::optional<round_trip> line;
    if (node && ranks == 2) {
        line.emplace(*node);
        all.push_back(timed("limit", [&] { (*line)(); }));
    }
    interleave("barrier", ranks, ours, all);
}

template <class Barrier, class Sum> static void allreduces(Barrier barrier, Sum ours)
{
    double mine = rank + 1, expected = ranks * (ranks + 1) / 2.0;
    std::vector<candidate> all{timed("MPI",
                                     [=] {
                                         double sum;
                                         MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM,
                                                       MPI_COMM_WORLD);
                                         check(sum, expected);
                                     }),
                               timed("sync", [=] { check(ours(mine), expected); })};
    interleave("allreduce", ranks, barrier, all);
}

static void measure_mismatch(const char *name, const std::function<void()> &barrier)
{
    for (int i = 0; i < 100; i++)
        barrier();
    double left = seconds_now(), first = -left, last = left;
    // At least one step of the clock, for ranks that leave together.
    print(std::string("mismatch-leave/") + name, ranks,
          std::max(slowest(last) + slowest(first), 1e-9));
}

static void mismatch(const os::team &team)
{
    os::barrier<> ours(team);
    os::punctual_barrier<> punctual(team);
    for (int batch = 0; batch < options.batches; batch++) {
        measure_mismatch("MPI", [] { MPI_Barrier(MPI_COMM_WORLD); });
        measure_mismatch("sync", [&] { ours.wait(); });
        measure_mismatch("punctual", [&] { punctual.wait(); });
    }
}

static float product(const std::vector<float> &a, const std::vector<float> &b)
{
    float sums[16] = {}; // independent chains that fit the CPU's registers
    std::size_t i = 0;
    for (; i + 16 <= a.size(); i += 16)
        for (int lane = 0; lane < 16; lane++)
            sums[lane] += a[i + lane] * b[i + lane];
    float sum = 0;
    for (; i < a.size(); i++)
        sum += a[i] * b[i];
    for (float operation : sums)
        sum += operation;
    return sum;
}

static void dots(const os::team &team)
{
    os::barrier<> barrier(team);
    os::collectives<> ours(team);
    [[maybe_unused]] static volatile float kept; // keeps the compiler from eliding products
    for (int size : sizes) {
        std::vector<float> a(size, 1.0f), b(size, 2.0f);
        auto mpi = [&] {
            float sum, mine = product(a, b);
            MPI_Allreduce(&mine, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            kept = sum;
        };
        std::vector<candidate> all{
            timed("limit", [&] { kept = product(a, b); }), timed("MPI", mpi),
            timed("sync", [&] { kept = ours.allreduce(product(a, b), std::plus<>()); })};
        interleave(
            "dot", size, [&] { barrier.wait(); }, all);
    }
}

static void measure_node(const os::team &team)
{
    os::barrier<> barrier(team);
    auto wait = [&] { barrier.wait(); };
    if (bench_list_has(options.operations, "barrier"))
        barriers(wait, &team);
    if (bench_list_has(options.operations, "allreduce")) {
        os::collectives<> ours(team);
        allreduces(wait, [&](double mine) { return ours.allreduce(mine, std::plus<>()); });
    }
    if (bench_list_has(options.operations, "mismatch"))
        mismatch(team);
    if (bench_list_has(options.operations, "dot"))
        dots(team);
}

static void measure_nodes()
{
    auto wait = [] { all_ranks->barrier(); };
    if (bench_list_has(options.operations, "barrier"))
        barriers(wait, nullptr);
    if (bench_list_has(options.operations, "allreduce"))
        allreduces(wait, [](double mine) { return all_ranks->allreduce(mine, std::plus<>()); });
}

static int run(int argc, char **argv)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int option; (option = getopt(argc, argv, "s:" BENCH_OPTIONS)) != -1;) {
        if (option == 's') {
            sizes.clear();
            for (char *word = strtok(optarg, ","); word; word = strtok(nullptr, ","))
                sizes.push_back(atoi(word));
        } else if (!bench_option(&options, option, optarg)) {
            return 2;
        }
    }
    os::cluster cluster(MPI_COMM_WORLD);
    all_ranks.emplace(cluster);
    if (cluster.nodes() > 1)
        measure_nodes();
    else
        measure_node(cluster.node());
    all_ranks.reset();
    return 0;
}

int main(int argc, char **argv)
{
    return bench_run_job(argc, argv, run);
}
