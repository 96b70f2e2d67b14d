// bench/ghost/ghost.cpp: the ghost update of onespace/sync beside MPI's own ways.
//
// usage: mpiexec ... ghost [-b BATCHES] [-t MILLISECONDS] [-o VARIANT,VARIANT...] LISTS...
// LISTS are files of meshes.py for as many ranks. Variants (all by default):
//   isend persistent neighbor          flat MPI
//   fence fence-tuned pscw pscw-tuned lock lock-tuned     shared windows, see windows.hpp
//   sync                               onespace/sync, by the path that it chooses itself
//   sync-direct                        in place, where the ranks are tasks
//   sync-buffers sync-ring             through two buffers per pair, or a ring of many
//   sync-streamed                      through two buffers filled by non-temporal stores
//   sync-leaders                       with several nodes: one leader per node sends for all
//   limit                              copies without synchronisation
//
// A loop changes all values that a rank sends, then updates the ghosts. The cost of an update is
// the loop's time minus that of the same loop without updates, so that it includes the slower
// stores to cache lines which a neighbour has read. Rank 0 prints lines
// "ghost/VARIANT POINTS SECONDS", one per batch, of the slowest rank. The ghosts are verified after
// each batch.
#include <functional>
#include <memory>
#include <onespace/sync/cluster.hpp>
#include <onespace/sync/ghost_mpi.hpp>

#include "../lib/bench.h"
#include "windows.hpp"

namespace os = onespace::sync;

static constexpr int calls_max = 20000; // of a batch
static int rank, ranks;
static bench_options options = {nullptr, 10, 0, 0.002}; // operations: of variants; nullptr: all

struct variant {
    const char *name;
    std::function<void()> update;
    std::function<void()> prepare; // uncounted, before each update
    bool checked = true;
};

struct setting {
    part own_part;
    node on;
    os::cluster cluster;
    os::cluster_collectives<> all;
    int points; // of the mesh
};

// The time of an iteration of the loop on the calling rank, as a mean of `count`.
static double time_of(const variant &tested, int count, setting &in, bool updates = true)
{
    for (int warm = 0; warm < 10; warm++) // section 4.3 of the paper
        in.all.barrier();
    double start = seconds_now();
    for (int i = 0; i < count; i++) {
        in.own_part.compute();
        if (tested.prepare)
            tested.prepare();
        if (updates)
            tested.update();
    }
    return (seconds_now() - start) / count;
}

// A barrier of all ranks that yields, since not every MPI does so in its own waits and ranks may
// share a CPU; and that makes MPI progress, which the passive-target locks of other ranks need.
static double slowest(double seconds)
{
    double longest;
    MPI_Request request;
    int done = 0;
    MPI_Iallreduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done)
        sched_yield();
    return longest;
}

static void check(const variant &tested, const part &own_part)
{
    if (!tested.checked || own_part.is_right())
        return;
    fprintf(stderr, "ghost: rank %d: %s brought wrong values\n", rank, tested.name);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

// The number of updates that fill a batch. Verifies each of the first ones.
static int calls_per_batch(const variant &tested, setting &in)
{
    double seconds = 0;
    for (int i = 0; i < 3; i++) {
        seconds = slowest(time_of(tested, 1, in));
        check(tested, in.own_part);
    }
    if (seconds < 1e-3)
        seconds = slowest(time_of(tested, 10, in));
    return std::clamp(int(options.batch_seconds / seconds), 2, calls_max);
}

static void interleave(setting &in, const std::vector<variant> &variants)
{
    std::vector<int> counts;
    for (const auto &tested : variants)
        counts.push_back(calls_per_batch(tested, in));
    for (int batch = 0; batch < options.batches; batch++)
        for (std::size_t i = 0; i < variants.size(); i++) {
            double idle = slowest(time_of(variants[i], counts[i], in, false));
            double seconds = slowest(time_of(variants[i], counts[i], in)) - idle;
            check(variants[i], in.own_part);
            if (rank == 0)
                printf("ghost/%s %d %.9e\n", variants[i].name, in.points, std::max(seconds, 1e-9));
        }
}

// The selected variants of one mesh; owns them.
class variants
{
  public:
    explicit variants(setting &in) : in_(in)
    {
        auto &own_part = in.own_part;
        auto &on = in.on;
        auto all = [](int) { return true; };
        add<immediate>("isend", own_part, MPI_COMM_WORLD, all);
        add<persistent>("persistent", own_part, MPI_COMM_WORLD, all);
        add<collective>("neighbor", own_part, MPI_COMM_WORLD, all);
        add<fence>("fence", own_part, on, false);
        add<fence>("fence-tuned", own_part, on, true);
        add<pscw>("pscw", own_part, on, false);
        add<pscw>("pscw-tuned", own_part, on, true);
        add<lock>("lock", own_part, on);
        add<lock_tuned>("lock-tuned", own_part, on);
        add_sync("sync", os::ghost_path::automatic);
        if (in.cluster.node().direct())
            add_sync("sync-direct", os::ghost_path::direct);
        add_sync("sync-buffers", os::ghost_path::buffers);
        add_sync("sync-ring", os::ghost_path::ring);
        add_sync("sync-streamed", os::ghost_path::streamed);
        if (in.cluster.nodes() > 1)
            add_sync("sync-leaders", os::ghost_path::automatic, os::ghost_speaker::leader);
        add<only_copies>("limit", own_part, on);
    }
    const std::vector<variant> &list() const
    {
        return list_;
    }

  private:
    static bool is_chosen(const char *name)
    {
        return !options.operations || bench_list_has(options.operations, name);
    }
    template <class Exchange, class... Arguments> void add(const char *name, Arguments &&...with)
    {
        if (!is_chosen(name))
            return;
        auto made = std::make_shared<Exchange>(std::forward<Arguments>(with)...);
        variant tested{name, [made] { made->update(); }, {}};
        if constexpr (std::is_same_v<Exchange, only_copies>) {
            tested.prepare = [made] { made->prepare(); };
            tested.checked = false;
        }
        list_.push_back(std::move(tested));
    }
    void add_sync(const char *name, os::ghost_path path,
                  os::ghost_speaker speaker = os::ghost_speaker::each)
    {
        if (!is_chosen(name))
            return;
        auto &own_part = in_.own_part;
        auto made = std::make_shared<os::mpi_ghost_plan<double>>(
            MPI_COMM_WORLD, in_.cluster.node(), own_part.lists(),
            os::ghost_shape{own_part.vector.size(), 1, own_part.ids}, path, speaker);
        list_.push_back({name, [made, &own_part] { made->update(own_part.vector); }, {}});
    }
    setting &in_;
    std::vector<variant> list_;
};

static node find_node(const os::team &team)
{
    node found;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &found.ranks);
    MPI_Comm_rank(found.ranks, &found.rank);
    MPI_Comm_size(found.ranks, &found.size);
    found.first = rank - found.rank;
    found.oversubscribed = team.oversubscribed();
    return found;
}

static void measure(const char *path, const os::cluster &cluster)
{
    setting in{read_part(path, rank, ranks), find_node(cluster.node()), cluster,
               os::cluster_collectives<>(cluster), 0};
    MPI_Allreduce(&in.own_part.own, &in.points, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    {
        variants all(in);
        interleave(in, all.list());
    }
    MPI_Comm_free(&in.on.ranks);
}

static int run(int argc, char **argv)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bool good = true;
    for (int option; (option = getopt(argc, argv, BENCH_OPTIONS)) != -1;)
        good &= bench_option(&options, option, optarg) != 0;
    if (!good || optind == argc) {
        if (rank == 0)
            fprintf(stderr, "usage: ghost [-b BATCHES] [-t MILLISECONDS] [-o VARIANTS] LISTS...\n");
        return 2;
    }
    os::cluster cluster(MPI_COMM_WORLD);
    if (rank == 0)
        printf("team %s %s nodes %d\n", cluster.node().direct() ? "direct" : "windows",
               cluster.node().oversubscribed() ? "oversubscribed" : "roomy", cluster.nodes());
    for (int i = optind; i < argc; i++)
        try {
            measure(argv[i], cluster);
        } catch (const std::exception &error) {
            fprintf(stderr, "ghost: rank %d: %s\n", rank, error.what());
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    return 0;
}

int main(int argc, char **argv)
{
    return bench_run_job(argc, argv, run);
}
