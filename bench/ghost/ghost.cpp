// bench/ghost/ghost.cpp: the ghost update of onespace/sync beside MPI's own ways.
//
// usage: mpiexec ... ghost [-b BATCHES] [-t MILLISECONDS] [-v VARIANT,VARIANT...] LISTS...
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
static int rank, ranks, batches = 10;
static double batch_seconds = 0.002;
static const char *wanted; // names, comma-separated; nullptr: all

struct variant {
    const char *name;
    std::function<void()> update;
    std::function<void()> prepare; // uncounted, before each update
    bool checked = true;
};

struct setting {
    part mine;
    node on;
    os::cluster cluster;
    os::cluster_collectives<> all;
    int points; // of the mesh
};

// The time of an iteration of the loop on the calling rank, as a mean of `count`.
static double time_of(const variant &one, int count, setting &in, bool updates = true)
{
    for (int warm = 0; warm < 10; warm++) // section 4.3 of the paper
        in.all.barrier();
    double start = seconds_now();
    for (int i = 0; i < count; i++) {
        in.mine.compute();
        if (one.prepare)
            one.prepare();
        if (updates)
            one.update();
    }
    return (seconds_now() - start) / count;
}

// A barrier of all ranks that yields, since not every MPI does so in its own waits and ranks may
// share a CPU; and that makes MPI progress, which the passive-target locks of other ranks need.
static double slowest(double seconds)
{
    double most;
    MPI_Request request;
    int done = 0;
    MPI_Iallreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done)
        sched_yield();
    return most;
}

static void check(const variant &one, const part &mine)
{
    if (!one.checked || mine.is_right())
        return;
    fprintf(stderr, "ghost: rank %d: %s brought wrong values\n", rank, one.name);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

// The number of updates that fill a batch. Verifies each of the first ones.
static int calls_of(const variant &one, setting &in)
{
    double seconds = 0;
    for (int i = 0; i < 3; i++) {
        seconds = slowest(time_of(one, 1, in));
        check(one, in.mine);
    }
    if (seconds < 1e-3)
        seconds = slowest(time_of(one, 10, in));
    return std::clamp(int(batch_seconds / seconds), 2, calls_max);
}

static void interleave(setting &in, const std::vector<variant> &variants)
{
    std::vector<int> counts;
    for (const auto &one : variants)
        counts.push_back(calls_of(one, in));
    for (int batch = 0; batch < batches; batch++)
        for (std::size_t i = 0; i < variants.size(); i++) {
            double idle = slowest(time_of(variants[i], counts[i], in, false));
            double seconds = slowest(time_of(variants[i], counts[i], in)) - idle;
            check(variants[i], in.mine);
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
        auto &mine = in.mine;
        auto &on = in.on;
        auto all = [](int) { return true; };
        add<immediate>("isend", mine, MPI_COMM_WORLD, all);
        add<persistent>("persistent", mine, MPI_COMM_WORLD, all);
        add<collective>("neighbor", mine, MPI_COMM_WORLD, all);
        add<fence>("fence", mine, on, false);
        add<fence>("fence-tuned", mine, on, true);
        add<pscw>("pscw", mine, on, false);
        add<pscw>("pscw-tuned", mine, on, true);
        add<lock>("lock", mine, on);
        add<lock_tuned>("lock-tuned", mine, on);
        add_sync("sync", os::ghost_path::automatic);
        if (in.cluster.node().direct())
            add_sync("sync-direct", os::ghost_path::direct);
        add_sync("sync-buffers", os::ghost_path::buffers);
        add_sync("sync-ring", os::ghost_path::ring);
        add_sync("sync-streamed", os::ghost_path::streamed);
        if (in.cluster.nodes() > 1)
            add_sync("sync-leaders", os::ghost_path::automatic, os::ghost_speaker::leader);
        add<only_copies>("limit", mine, on);
    }
    const std::vector<variant> &list() const
    {
        return list_;
    }

  private:
    static bool is_wanted(const char *name)
    {
        return !wanted || bench_list_has(wanted, name);
    }
    template <class Exchange, class... Arguments> void add(const char *name, Arguments &&...with)
    {
        if (!is_wanted(name))
            return;
        auto made = std::make_shared<Exchange>(std::forward<Arguments>(with)...);
        variant one{name,
                    [made] {
                        if constexpr (std::is_same_v<Exchange, persistent>)
                            made->begin(), made->end();
                        else
                            made->update();
                    },
                    {}};
        if constexpr (std::is_same_v<Exchange, only_copies>) {
            one.prepare = [made] { made->prepare(); };
            one.checked = false;
        }
        list_.push_back(std::move(one));
    }
    void add_sync(const char *name, os::ghost_path path,
                  os::ghost_speaker speaker = os::ghost_speaker::each)
    {
        if (!is_wanted(name))
            return;
        auto &mine = in_.mine;
        auto made = std::make_shared<os::mpi_ghost_plan<double>>(
            MPI_COMM_WORLD, in_.cluster.node(), mine.lists(),
            os::ghost_shape{mine.vector.size(), 1, mine.ids}, path, speaker);
        list_.push_back({name, [made, &mine] { made->update(mine.vector); }, {}});
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
    MPI_Allreduce(&in.mine.own, &in.points, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    {
        variants all(in);
        interleave(in, all.list());
    }
    MPI_Comm_free(&in.on.ranks);
}

static bool parse(int argc, char **argv)
{
    for (int option; (option = getopt(argc, argv, "b:t:v:")) != -1;) {
        if (option == 'b')
            batches = atoi(optarg);
        else if (option == 't')
            batch_seconds = atof(optarg) / 1000;
        else if (option == 'v')
            wanted = optarg;
        else
            return false;
    }
    return optind < argc;
}

static int run(int argc, char **argv)
{
    if (!parse(argc, argv)) {
        if (rank == 0)
            fprintf(stderr, "usage: ghost [-b BATCHES] [-t MILLISECONDS] [-v VARIANTS] LISTS...\n");
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
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    setvbuf(stdout, nullptr, _IOLBF, 4096);
    int status = run(argc, argv);
    if (rank == 0 && status == 0)
        puts("done");
    MPI_Barrier(MPI_COMM_WORLD); // no rank leaves while others still need its progress
    MPI_Finalize();
    return status;
}
