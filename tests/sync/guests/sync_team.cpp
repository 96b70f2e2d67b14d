// tests/sync/guests/sync_team.cpp: the members of a team, from MPI (-DFROM_MPI) or from a space:
//
//   team N              prints its rank, and passes N barriers of each kind
//   late SECONDS        rank 0 arrives so much later
//   lose RANK HOW       that rank ends before the barrier; HOW: kill, exit, exec
//   repeat N            N teams one after another, each with a region
//   collect N           N rounds of collective operations on values and spans
//   cluster N           with MPI: N rounds over all nodes
#include <cstdio>
#include <cstdlib>
#include <signal.h>
#include <sync/lost.hpp>

#ifdef FROM_MPI
#include <onespace/sync/cluster.hpp>
#else
#include <onespace/sync/space.hpp>
#endif
#include <onespace/sync.hpp>

namespace os = onespace::sync;

static os::team make()
{
#ifdef FROM_MPI
    return os::from_mpi(MPI_COMM_WORLD);
#else
    return os::from_space();
#endif
}

// Each rank sees what each rank wrote before the barrier, and no more.
template <class Barrier> static int wrong_rounds(const os::team &team, int rounds)
{
    auto cells = team.allocate(sizeof(long));
    Barrier barrier(team);
    int wrong = 0;
    for (long round = 1; round <= rounds; round++) {
        *cells.at<long>(team.rank()) = round;
        barrier.wait();
        for (int i = 0; i < team.size(); i++)
            wrong += *cells.at<long>(i) != round;
        barrier.wait();
    }
    return wrong;
}

static int check_team(int rounds)
{
    auto team = make();
    int wrong = wrong_rounds<os::barrier<>>(team, rounds) +
                wrong_rounds<os::barrier<os::futex>>(team, rounds);
    if (team.direct()) { // follow a pointer into private memory
        long value = 100 + team.rank();
        auto pointers = team.exchange(&value);
        for (int i = 0; i < team.size(); i++)
            wrong += *pointers[i] != 100 + i;
        team.exchange(0);
    }
    printf("rank %d of %d, %s: %d wrong\n", team.rank(), team.size(),
           team.direct() ? "direct" : "windows", wrong);
    return wrong != 0;
}

static int come_late(int seconds)
{
    auto team = make();
    os::barrier barrier(team);
    if (team.rank() == 0)
        sleep(seconds);
    barrier.wait();
    printf("rank %d is there\n", team.rank());
    return 0;
}

static void end(const char *how)
{
    if (*how == 'k')
        kill(getpid(), SIGKILL);
    if (how[1] == 'x' && how[2] == 'e')
        execlp("sleep", "sleep", "2", static_cast<char *>(nullptr));
    _exit(0);
}

static int lose(int rank, const char *how)
{
    auto team = make();
    os::barrier barrier(team);
    barrier.wait();
    if (team.rank() == rank)
        end(how);
    try {
        barrier.wait();
    } catch (const os::peer_lost &loss) {
        report_loss(team.rank(), loss.rank(), team.size() - 1);
    }
    return 1;
}

static int make_repeatedly(int count)
{
    for (int i = 0; i < count; i++) {
        auto team = make();
        auto region = team.allocate(4096);
        os::barrier barrier(team);
        *region.at<int>(team.rank()) = i;
        barrier.wait();
        if (*region.at<int>((team.rank() + 1) % team.size()) != i)
            return 1;
    }
    printf("made\n");
    return 0;
}

static int collect(int rounds)
{
    auto team = make();
    int size = team.size(), rank = team.rank(), wrong = 0;
    os::collectives all(team);
    for (int round = 0; round < rounds; round++) {
        std::size_t length = round % 2 ? 3 : 30000;
        std::vector<long> given(length, rank + round), sums(length), gathered(length * size);
        all.allreduce(std::span<const long>(given), std::span(sums), std::plus<>());
        all.allgather(std::span<const long>(given), std::span(gathered));
        for (std::size_t i = 0; i < length; i++)
            wrong += sums[i] != size * (size - 1) / 2 + size * round;
        for (int i = 0; i < size; i++)
            wrong += gathered[(i + 1) * length - 1] != i + round;
        all.broadcast(std::span(given), round % size);
        wrong += given[length - 1] != round % size + round;
        wrong += all.scatter(std::span<const long>(gathered), 0) != gathered[rank];
    }
    printf("rank %d: %d wrong\n", rank, wrong);
    return wrong != 0;
}

#ifdef FROM_MPI
static int over_nodes(int rounds)
{
    struct pair {
        int a, b;
    };
    os::cluster cluster(MPI_COMM_WORLD);
    os::cluster_collectives<> all(cluster);
    int rank, size, wrong = 0;
    MPI_Comm_rank(cluster.world(), &rank);
    MPI_Comm_size(cluster.world(), &size);
    for (int round = 0; round < rounds; round++) {
        all.barrier();
        wrong += all.allreduce(1.5 * round, std::plus<>()) != 1.5 * round * size;
        auto both = all.allreduce(pair{1, rank}, [](pair x, pair y) { // a type that no MPI knows
            return pair{x.a + y.a, std::max(x.b, y.b)};
        });
        wrong += both.a != size || both.b != size - 1;
    }
    printf("rank %d is %d of %d on one of %d nodes: %d wrong\n", rank, cluster.local(rank),
           cluster.node().size(), cluster.nodes(), wrong);
    return wrong != 0;
}
#else
static int over_nodes(int)
{
    return 2;
}
#endif

int main(int argc, char **argv)
{
#ifdef FROM_MPI
    MPI_Init(&argc, &argv); // MPICH's leaves standard output without a buffer
#endif
    static char line[4096];
    setvbuf(stdout, line, _IOLBF, sizeof(line)); // a line is one write: launchers mix what is not
    std::string what = argc > 2 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 0;
    int status = what == "team"      ? check_team(number)
                 : what == "late"    ? come_late(number)
                 : what == "lose"    ? lose(number, argv[3])
                 : what == "repeat"  ? make_repeatedly(number)
                 : what == "collect" ? collect(number)
                 : what == "cluster" ? over_nodes(number)
                                     : 2;
#ifdef FROM_MPI
    MPI_Finalize();
#endif
    return status;
}
