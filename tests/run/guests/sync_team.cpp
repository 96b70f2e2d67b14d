// tests/run/guests/sync_team.cpp: a team, from MPI (-DFROM_MPI) or from a space, does what it is
// told:
//
//   team N              says who it is, and passes N barriers of each kind
//   late SECONDS        rank 0 arrives so much later
//   lose RANK HOW       that rank ends before the barrier; HOW: kill, exit, exec
//   twice N             N teams one after another, each with a region
#include <cstdio>
#include <cstdlib>
#include <signal.h>

#ifdef FROM_MPI
#include <onespace/sync/mpi.hpp>
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

// Everybody sees what everybody wrote before the barrier, and no more.
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
                wrong_rounds<os::barrier<os::sequential, os::futex>>(team, rounds) +
                wrong_rounds<os::simple_barrier<>>(team, rounds) +
                wrong_rounds<os::tree_barrier<os::release_acquire, os::spin_yield>>(team, rounds);
    if (team.direct()) { // follow a pointer into private memory
        long mine = 100 + team.rank();
        auto pointers = team.exchange(&mine);
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
        printf("rank %d lost %d\n", team.rank(), loss.rank());
        fflush(stdout);
        _exit(0); // an MPI_Finalize would wait for the lost one
    }
    return 1;
}

static int make_many(int count)
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

int main(int argc, char **argv)
{
#ifdef FROM_MPI
    MPI_Init(&argc, &argv);
#endif
    std::string what = argc > 2 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 0;
    int status = what == "team"    ? check_team(number)
                 : what == "late"  ? come_late(number)
                 : what == "lose"  ? lose(number, argv[3])
                 : what == "twice" ? make_many(number)
                                   : 2;
#ifdef FROM_MPI
    MPI_Finalize();
#endif
    return status;
}
