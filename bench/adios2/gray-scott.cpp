// bench/adios2/gray-scott.cpp: a simulation and an analysis that use ADIOS2 only; adios2.xml in the
// working directory chooses the engine.
//
//   mpiexec -n N gray-scott simulate STREAMS SIDE STEPS GAP
//   mpiexec -n M gray-scott analyse STREAMS
//
// The simulation is the reaction of Gray and Scott (Pearson, Science 261, 1993) on SIDE^3 cells,
// periodic, in slabs along the first axis. After every GAP iterations it writes U and V, in STEPS
// steps. The analysis counts both in a histogram, and how often V crosses a threshold between
// neighbours within a plane: integers, so that all engines and numbers of ranks must agree.
//
// STREAMS: 1; or N with an ADIOS2 without MPI, with which most engines write a stream from one
// process only. The first rank of the simulation prints the seconds of the whole run and of its
// output; the first rank of the analysis prints a line for each step.
#include <adios2.h>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace
{

constexpr double DIFFUSION_U = 0.2, DIFFUSION_V = 0.1, FEED = 0.02, KILL = 0.048, THRESHOLD = 0.1;
constexpr size_t BINS = 16;

int rank, ranks;

[[noreturn]] void fail(const char *why)
{
    fprintf(stderr, "gray-scott: rank %d: %s\n", rank, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

adios2::ADIOS start_adios()
{
#if ADIOS2_USE_MPI
    return adios2::ADIOS("adios2.xml", MPI_COMM_WORLD);
#else
    return adios2::ADIOS("adios2.xml");
#endif
}

std::string stream_name(size_t number)
{
    return "gray-scott." + std::to_string(number);
}

// The first of `whole` planes that belongs to a rank.
size_t first_of(size_t whole, size_t of_rank)
{
    return whole * of_rank / (size_t)ranks;
}

// ---- The simulation ----

class Simulation
{
  public:
    explicit Simulation(size_t cells)
        : side(cells), plane(cells * cells), first(first_of(cells, (size_t)rank)),
          planes(first_of(cells, (size_t)rank + 1) - first), u((planes + 2) * plane, 1.0),
          v((planes + 2) * plane, 0.0), next_u(u), next_v(v)
    {
        if (planes == 0)
            fail("SIDE is smaller than the number of ranks");
        size_t low = side / 2 - side / 8, high = side / 2 + side / 8; // a cube in the middle
        for (size_t z = std::max(low, first); z < std::min(high, first + planes); z++)
            for (size_t y = low; y < high; y++)
                for (size_t x = low; x < high; x++) {
                    size_t at = (z - first + 1) * plane + y * side + x;
                    u[at] = 0.25;
                    v[at] = 0.33 + 0.01 * (double)((x * 7 + y * 3 + z) % 5);
                }
    }

    void iterate()
    {
        exchange(u);
        exchange(v);
        for (size_t z = 1; z <= planes; z++)
            for (size_t y = 0; y < side; y++)
                row(z * plane, (y + side - 1) % side * side, y * side, (y + 1) % side * side);
        u.swap(next_u);
        v.swap(next_v);
    }
    // Without the neighbours' planes, and so in one piece.
    const double *inner(const std::vector<double> &field) const
    {
        return field.data() + plane;
    }

    const size_t side, plane, first, planes;
    std::vector<double> u, v;

  private:
    void exchange(std::vector<double> &field) const
    {
        int up = (rank + 1) % ranks, down = (rank + ranks - 1) % ranks, count = (int)plane;
        double *data = field.data();
        MPI_Sendrecv(data + plane, count, MPI_DOUBLE, down, 0, data + (planes + 1) * plane, count,
                     MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(data + planes * plane, count, MPI_DOUBLE, up, 1, data, count, MPI_DOUBLE, down,
                     1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }

    void row(size_t z, size_t before, size_t here, size_t after)
    {
        for (size_t x = 0; x < side; x++) {
            size_t left = (x + side - 1) % side, right = (x + 1) % side, at = z + here + x;
            auto spread = [&](const std::vector<double> &f) {
                return (f[z + here + left] + f[z + here + right] + f[z + before + x] +
                        f[z + after + x] + f[at - plane] + f[at + plane]) /
                           6.0 -
                       f[at];
            };
            double reaction = u[at] * v[at] * v[at];
            next_u[at] = u[at] + DIFFUSION_U * spread(u) - reaction + FEED * (1.0 - u[at]);
            next_v[at] = v[at] + DIFFUSION_V * spread(v) + reaction - (FEED + KILL) * v[at];
        }
    }

    std::vector<double> next_u, next_v;
};

void simulate(size_t streams, size_t side, size_t steps, size_t gap)
{
    if (streams != 1 && streams != (size_t)ranks)
        fail("STREAMS is 1, or the number of ranks");
    Simulation simulation(side);
    adios2::ADIOS adios = start_adios();
    size_t stream = (size_t)rank % streams;
    adios2::IO io = adios.DeclareIO(streams == 1 ? "writer" : "writer" + std::to_string(stream));
    adios2::Dims shape = {side, side, side}, start = {simulation.first, 0, 0},
                 count = {simulation.planes, side, side};
    auto u = io.DefineVariable<double>("U", shape, start, count);
    auto v = io.DefineVariable<double>("V", shape, start, count);
    auto number = io.DefineVariable<uint64_t>("step");
    io.DefineAttribute<double>("F", FEED);
    io.DefineAttribute<double>("k", KILL);
    adios2::Engine engine = io.Open(stream_name(stream), adios2::Mode::Write);
    double began = 0, output = 0;
    for (uint64_t step = 0; step < steps; step++) {
        for (size_t i = 0; i < gap; i++)
            simulation.iterate();
        if (step == 1) { // the first step waits for the reader
            began = MPI_Wtime();
            output = 0;
        }
        double before = MPI_Wtime();
        engine.BeginStep();
        engine.Put(u, simulation.inner(simulation.u));
        engine.Put(v, simulation.inner(simulation.v));
        if (rank == 0 || streams > 1)
            engine.Put(number, step);
        engine.EndStep();
        output += MPI_Wtime() - before;
    }
    engine.Close();
    double mine[2] = {MPI_Wtime() - began, output}, most[2];
    MPI_Reduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("whole %zu %.9f\noutput %zu %.9f\n", side, most[0] / (double)(steps - 1), side,
               most[1] / (double)(steps - 1));
}

// ---- The analysis ----

struct Found {
    std::array<uint64_t, BINS> u{}, v{};
    uint64_t crossings = 0;
};
constexpr size_t NUMBERS = sizeof(Found) / sizeof(uint64_t);

void count_values(const std::vector<double> &field, std::array<uint64_t, BINS> &bins)
{
    for (double value : field)
        bins[(size_t)std::clamp(value * BINS, 0.0, (double)(BINS - 1))]++;
}

void count_crossings(const std::vector<double> &field, size_t side, Found &found)
{
    auto is_above = [&](size_t at) { return field[at] > THRESHOLD; };
    for (size_t at = 0; at < field.size(); at++) {
        size_t x = at % side, y = at / side % side;
        found.crossings += (x > 0 && is_above(at) != is_above(at - 1)) +
                           (y > 0 && is_above(at) != is_above(at - side));
    }
}

// The planes of the step that are this rank's: all of a stream of one rank, else a slab.
void analyse_step(adios2::IO &io, adios2::Engine &engine, bool is_whole, Found &found)
{
    auto u = io.InquireVariable<double>("U"), v = io.InquireVariable<double>("V");
    if (!u || !v)
        fail("the step has no U or no V");
    size_t side = u.Shape()[0], first = first_of(side, (size_t)rank);
    size_t planes = first_of(side, (size_t)rank + 1) - first;
    if (is_whole) {
        auto blocks = engine.BlocksInfo(u, engine.CurrentStep());
        first = blocks.at(0).Start[0];
        planes = blocks.at(0).Count[0];
    }
    std::vector<double> values_u, values_v;
    u.SetSelection({{first, 0, 0}, {planes, side, side}});
    v.SetSelection({{first, 0, 0}, {planes, side, side}});
    engine.Get(u, values_u);
    engine.Get(v, values_v);
    engine.EndStep();
    count_values(values_u, found.u);
    count_values(values_v, found.v);
    count_crossings(values_v, side, found);
}

void print(uint64_t step, const Found &found)
{
    printf("step %llu crossings %llu", (unsigned long long)step,
           (unsigned long long)found.crossings);
    for (const auto &bins : {found.u, found.v})
        for (uint64_t bin : bins)
            printf(" %llu", (unsigned long long)bin);
    printf("\n");
}

void analyse(size_t streams)
{
    size_t begin = first_of(streams, (size_t)rank), end = first_of(streams, (size_t)rank + 1);
    if (streams == 1)
        begin = 0, end = 1;
    adios2::ADIOS adios = start_adios();
    std::vector<adios2::IO> ios;
    std::vector<adios2::Engine> engines;
    for (size_t i = begin; i < end; i++) {
        adios2::IO io = adios.DeclareIO(streams == 1 ? "reader" : "reader" + std::to_string(i));
        ios.push_back(io);
        engines.push_back(io.Open(stream_name(i), adios2::Mode::Read));
    }
    for (uint64_t step = 0;; step++) {
        Found mine, all;
        int is_over = 0;
        for (size_t i = 0; i < engines.size(); i++) {
            is_over = engines[i].BeginStep() != adios2::StepStatus::OK;
            if (!is_over)
                analyse_step(ios[i], engines[i], streams > 1, mine);
        }
        int is_anywhere_over;
        MPI_Allreduce(&is_over, &is_anywhere_over, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (is_anywhere_over)
            break;
        MPI_Reduce(&mine, &all, (int)NUMBERS, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0)
            print(step, all);
    }
    for (adios2::Engine &engine : engines)
        engine.Close();
}

} // namespace

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const std::string what = argc > 2 ? argv[1] : "";
    auto number = [&](int i) { return (size_t)strtoul(argv[i], nullptr, 10); };
    try {
        if (what == "simulate" && argc == 6)
            simulate(number(2), number(3), number(4), number(5));
        else if (what == "analyse" && argc == 3)
            analyse(number(2));
        else
            fail("simulate STREAMS SIDE STEPS GAP | analyse STREAMS");
    } catch (const std::exception &failure) {
        fail(failure.what());
    }
    MPI_Finalize();
    return 0;
}
