// tests/sync/guests/sync_ghost.cpp: ghost updates of real ranks, of MPI (-DFROM_MPI) or of a space:
//
//   random SEED         random lists, against what one rank computes
//   buffers SEED        the same through buffers, also where vectors could be read
//   halves SEED         with MPI: two teams, messages between them
//   leaders SEED        the same, one rank of each team sends all messages
//   speakers 0          ranks that want different speakers
//   mismatch WHAT       rank 1's lists are wrong: range, count, missing or id
//   lose RANK           that rank is killed between two updates
#include <cstdio>
#include <cstdlib>
#include <signal.h>
#include <sync/ghost_mesh.hpp>
#include <sync/lost.hpp>

#ifdef FROM_MPI
#include <onespace/sync/ghost_mpi.hpp>
#else
#include <onespace/sync/ghost.hpp>
#include <onespace/sync/space.hpp>
#endif

namespace os = onespace::sync;
static constexpr int updates = 50;
static constexpr std::size_t values = 3;

#ifdef FROM_MPI
using plan = os::mpi_ghost_plan<std::uint64_t>;
static plan make(const ghost_part &part, os::ghost_path path)
{
    return {MPI_COMM_WORLD, part.lists, {part.ids.size(), values, part.ids}, path};
}
static int rank_and_size(int &size)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return rank;
}
static plan make_halves(const ghost_part &part, const std::string &what)
{
    int size, rank = rank_and_size(size);
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    plan made(MPI_COMM_WORLD, os::from_mpi(half), part.lists, {part.ids.size(), values, part.ids},
              os::ghost_path::direct,
              what == "leaders" ? os::ghost_speaker::leader : os::ghost_speaker::each);
    MPI_Comm_free(&half);
    return made;
}
static int speakers()
{
    int size, rank = rank_and_size(size);
    try {
        plan(MPI_COMM_WORLD, {}, {1}, os::ghost_path::automatic,
             rank == 1 ? os::ghost_speaker::leader : os::ghost_speaker::each);
    } catch (const std::invalid_argument &error) {
        printf("rank %d: %s\n", rank, error.what());
        return 0;
    }
    return 1;
}
#else
using plan = os::ghost_plan<std::uint64_t>;
static plan make(const ghost_part &part, os::ghost_path path)
{
    return {os::from_space(), part.lists, {part.ids.size(), values, part.ids}, path};
}
static int rank_and_size(int &size)
{
    if (onespace_init() < 0)
        exit(3);
    size = onespace_ntasks();
    return onespace_number();
}
static plan make_halves(const ghost_part &, const std::string &)
{
    exit(2);
}
static int speakers()
{
    exit(2);
}
#endif

static int check_random(unsigned seed, const std::string &what)
{
    int size, rank = rank_and_size(size);
    auto parts = random_parts(size, seed);
    const auto &part = parts[rank];
    auto ghosts = what == "halves" || what == "leaders"
                      ? make_halves(part, what)
                      : make(part, what == "buffers"  ? os::ghost_path::buffers
                                   : what == "direct" ? os::ghost_path::direct
                                                      : os::ghost_path::automatic);
    auto vector = first_values(part, values);
    std::mt19937 random(rank);
    for (int i = 0; i < updates; i++) {
        ghosts.begin(vector);
        if (random() % 16 == 0)
            usleep(random() % 500);
        ghosts.end();
        step(part, values, vector);
    }
    auto expected = reference(parts, values, updates)[rank];
    int wrong = 0;
    for (std::size_t i = 0; i < part.own * values; i++)
        wrong += vector[i] != expected[i];
    printf("rank %d of %d, %s: %d wrong\n", rank, size, ghosts.direct() ? "direct" : "buffers",
           wrong);
    return wrong != 0;
}

// Each rank sends its point 0 to the next, whose point 1 is the ghost of it.
static ghost_part ring(int rank, int size)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    return {{{next, {0}, {}}, {before, {}, {1}}}, {rank, before}, 1};
}

static int mismatch(const std::string &what)
{
    int size, rank = rank_and_size(size);
    auto part = ring(rank, size);
    if (rank == 1) {
        if (what == "range")
            part.lists[0].send[0] = 2;
        if (what == "count")
            part.lists[0].send.push_back(0);
        if (what == "missing")
            part.lists.pop_back();
        if (what == "id")
            part.ids[0] = 77;
    }
    try {
        make(part, os::ghost_path::automatic);
    } catch (const os::ghost_error &error) {
        printf("rank %d: %s\n", rank, error.what());
        return 0;
    }
    return 1;
}

static int lose(int lost)
{
    int size, rank = rank_and_size(size);
    auto part = ring(rank, size);
    auto ghosts = make(part, os::ghost_path::automatic);
    ghost_vector vector(2 * values);
    ghosts.update(vector);
    if (rank == lost)
        kill(getpid(), SIGKILL);
    try {
        for (;;)
            ghosts.update(vector);
    } catch (const os::peer_lost &loss) {
        report_loss(rank, loss.rank(), size - 1);
    }
}

int main(int argc, char **argv)
{
#ifdef FROM_MPI
    MPI_Init(&argc, &argv);
#endif
    if (argc < 3)
        return 2;
    std::string what = argv[1];
    int status = what == "mismatch"   ? mismatch(argv[2])
                 : what == "speakers" ? speakers()
                 : what == "lose"     ? lose(atoi(argv[2]))
                                      : check_random(atoi(argv[2]), what);
#ifdef FROM_MPI
    MPI_Finalize();
#endif
    return status;
}
