// bench/sync/sync.cpp: barrier, allreduce and dot product of onespace/sync beside those of the MPI.
//
// usage: mpiexec ... sync [-b BATCHES] [-t MILLISECONDS] [-s SIZE,SIZE...] [QUESTION...]
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

static int rank, ranks, batches = 10;
static double batch_seconds = 0.002;
static std::vector<int> sizes{64, 1024, 16384, 262144};

// Our own barrier: where ranks share CPUs, a waiting rank must yield to the others, which not every
// MPI's does.
static std::optional<os::cluster_collectives<>> among;

static double slowest(double seconds)
{
    return among->allreduce(seconds, os::maximum());
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
template <class Barrier> static double time_of(const candidate &one, int count, Barrier &barrier)
{
    for (int warm = 0; warm < 10; warm++)
        barrier();
    double seconds = one.time(count);
    barrier();
    return slowest(seconds) / count;
}

// The number of calls per batch: 3 to 100,000.
template <class Barrier> static int calls_of(const candidate &one, Barrier &barrier)
{
    double seconds = time_of(one, 3, barrier);
    double count = batch_seconds / time_of(one, seconds > 1e-4 ? 10 : 100, barrier);
    return count < 3 ? 3 : count > 100000 ? 100000 : int(count);
}

template <class Barrier>
static void interleave(const char *question, int x, Barrier barrier,
                       std::vector<candidate> &variants)
{
    std::vector<int> counts;
    for (auto &one : variants)
        counts.push_back(calls_of(one, barrier));
    for (int batch = 0; batch < batches; batch++)
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

static void barriers(const os::team &team)
{
    os::barrier<> ours(team);
    std::vector<candidate> all{timed("MPI", [] { MPI_Barrier(MPI_COMM_WORLD); }),
                               timed("sync", [&] { ours.wait(); })};
    std::optional<round_trip> line;
    if (ranks == 2) {
        line.emplace(team);
        all.push_back(timed("limit", [&] { (*line)(); }));
    }
    interleave(
        "barrier", ranks, [&] { ours.wait(); }, all);
}

static void check(double sum, double expected)
{
    if (sum == expected)
        return;
    fprintf(stderr, "sync: rank %d: a sum is %g instead of %g\n", rank, sum, expected);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static candidate mpi_allreduce(double mine, double expected)
{
    return timed("MPI", [=] {
        double sum;
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        check(sum, expected);
    });
}

static void allreduces(const os::team &team)
{
    os::barrier<> barrier(team);
    os::collectives<> ours(team);
    double mine = rank + 1, expected = ranks * (ranks + 1) / 2.0;
    std::vector<candidate> all{mpi_allreduce(mine, expected), timed("sync", [&] {
                                   check(ours.allreduce(mine, std::plus<>()), expected);
                               })};
    interleave(
        "allreduce", ranks, [&] { barrier.wait(); }, all);
}

// Several nodes: figures 18 to 21.
static void across(bool with_barrier, bool with_allreduce)
{
    double mine = rank + 1, expected = ranks * (ranks + 1) / 2.0;
    auto barrier = [] { among->barrier(); };
    std::vector<candidate> barriers{timed("MPI", [] { MPI_Barrier(MPI_COMM_WORLD); }),
                                    timed("sync", barrier)};
    std::vector<candidate> allreduces{mpi_allreduce(mine, expected), timed("sync", [=] {
                                          check(among->allreduce(mine, std::plus<>()), expected);
                                      })};
    if (with_barrier)
        interleave("barrier", ranks, barrier, barriers);
    if (with_allreduce)
        interleave("allreduce", ranks, barrier, allreduces);
}

static void mismatch_after(const char *name, const std::function<void()> &barrier)
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
    for (int batch = 0; batch < batches; batch++) {
        mismatch_after("MPI", [] { MPI_Barrier(MPI_COMM_WORLD); });
        mismatch_after("sync", [&] { ours.wait(); });
        mismatch_after("punctual", [&] { punctual.wait(); });
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
    for (float one : sums)
        sum += one;
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

template <class Wanted> static void within(const os::team &team, Wanted wanted)
{
    if (wanted("barrier"))
        barriers(team);
    if (wanted("allreduce"))
        allreduces(team);
    if (wanted("mismatch"))
        mismatch(team);
    if (wanted("dot"))
        dots(team);
}

static int run(int argc, char **argv)
{
    for (int option; (option = getopt(argc, argv, "b:t:s:")) != -1;) {
        if (option == 'b')
            batches = atoi(optarg);
        else if (option == 't')
            batch_seconds = atof(optarg) / 1000;
        else if (option == 's') {
            sizes.clear();
            for (char *word = strtok(optarg, ","); word; word = strtok(nullptr, ","))
                sizes.push_back(atoi(word));
        } else
            return 2;
    }
    os::cluster cluster(MPI_COMM_WORLD);
    auto wanted = [&](const char *question) {
        bool found = optind == argc;
        for (int i = optind; i < argc; i++)
            found |= strcmp(argv[i], question) == 0;
        return found;
    };
    among.emplace(cluster);
    if (cluster.nodes() > 1)
        across(wanted("barrier"), wanted("allreduce"));
    else
        within(cluster.node(), wanted);
    among.reset();
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    setvbuf(stdout, nullptr, _IOLBF, 4096);
    int status = run(argc, argv);
    if (rank == 0 && status == 0)
        puts("done");
    MPI_Finalize();
    return status;
}
