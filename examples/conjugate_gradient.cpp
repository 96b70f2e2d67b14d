/* examples/conjugate_gradient.cpp: a solver on a mesh that is partitioned over the MPI ranks.
 *
 *   mpicxx -std=c++20 conjugate_gradient.cpp -o conjugate_gradient $(pkg-config --cflags onespace)
 *   mpiexec -n 4 ./conjugate_gradient 16
 *   mpiexec -n 4 onespace run ./conjugate_gradient 16
 *
 * A couples each point of a cube with those it shares an edge with. Each rank has the rows of its
 * own points, and copies of their neighbours: ghosts. A ghost update refreshes these before each
 * product, overlapped with the rows that need none. Processes use shared buffers, tasks read each
 * other's vectors, nodes send messages. At the end each rank solves the whole problem serially. */
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <onespace/sync/ghost_mpi.hpp>
#include <random>
#include <set>

namespace os = onespace::sync;
using vector = std::vector<double>;

struct mesh {
    std::vector<std::array<int, 3>> where;
    std::vector<std::vector<int>> edges; // of each point, to these
};

// Cubes of six tetrahedra each, numbered at random: edges along axes, face and space diagonals.
static mesh make_mesh(int side)
{
    std::size_t count = std::size_t(side) * side * side;
    std::vector<int> number(count);
    std::iota(number.begin(), number.end(), 0);
    std::shuffle(number.begin(), number.end(), std::mt19937(1));
    mesh made{std::vector<std::array<int, 3>>(count), std::vector<std::vector<int>>(count)};
    auto at = [&](int x, int y, int z) { return number[(x * side + y) * side + z]; };
    for (int x = 0; x < side; x++)
        for (int y = 0; y < side; y++)
            for (int z = 0; z < side; z++) {
                made.where[at(x, y, z)] = {x, y, z};
                for (int to = 1; to < 8; to++) {
                    int u = x + (to & 1), v = y + (to >> 1 & 1), w = z + (to >> 2);
                    if (u < side && v < side && w < side) {
                        made.edges[at(x, y, z)].push_back(at(u, v, w));
                        made.edges[at(u, v, w)].push_back(at(x, y, z));
                    }
                }
            }
    return made;
}

// Recursive bisection: along x, in proportion to the ranks, then each half along y, and so on.
static void cut(const mesh &of, std::span<int> points, int axis, int first, int ranks,
                std::vector<int> &owner)
{
    for (int point : points)
        owner[point] = first;
    if (ranks == 1)
        return;
    auto half = points.size() * (ranks / 2) / ranks;
    std::nth_element(points.begin(), points.begin() + half, points.end(), [&](int a, int b) {
        return std::pair(of.where[a][axis], a) < std::pair(of.where[b][axis], b);
    });
    axis = (axis + 1) % 3;
    cut(of, points.first(half), axis, first, ranks / 2, owner);
    cut(of, points.subspan(half), axis, first + ranks / 2, ranks - ranks / 2, owner);
}

// The rows of a rank's own points, sparse, in local numbers: first the points whose rows need no
// ghosts, then the rest, then the ghosts.
struct part {
    std::vector<std::int64_t> ids; // the points' numbers in the mesh
    std::size_t inner = 0, own = 0;
    std::vector<int> begin{0}, column; // of row i: begin[i] to begin[i + 1]
    vector value;
    std::vector<os::ghost_neighbour> lists;
};

static part make_part(const mesh &of, const std::vector<int> &owner, int rank)
{
    part made;
    std::map<int, std::set<int>> send, receive; // by rank, in the order of the mesh's numbers
    std::vector<std::int64_t> border;
    for (int point = 0; point < int(owner.size()); point++) {
        if (owner[point] != rank)
            continue;
        bool inside = true;
        for (int to : of.edges[point])
            if (int other = owner[to]; other != rank) {
                inside = false;
                send[other].insert(point);
                receive[other].insert(to);
            }
        (inside ? made.ids : border).push_back(point);
    }
    made.inner = made.ids.size();
    made.ids.insert(made.ids.end(), border.begin(), border.end());
    made.own = made.ids.size();
    for (const auto &[other, points] : receive)
        made.ids.insert(made.ids.end(), points.begin(), points.end());
    std::map<int, int> local;
    for (std::size_t i = 0; i < made.ids.size(); i++)
        local[int(made.ids[i])] = int(i);
    for (const auto &[other, points] : send) {
        auto &with = made.lists.emplace_back(os::ghost_neighbour{other, {}, {}});
        for (int point : points)
            with.send.push_back(local[point]);
        for (int point : receive[other])
            with.receive.push_back(local[point]);
    }
    for (std::size_t i = 0; i < made.own; i++) {
        made.column.push_back(int(i));
        made.value.push_back(double(of.edges[made.ids[i]].size()) + 0.01);
        for (int to : of.edges[made.ids[i]])
            made.column.push_back(local[to]), made.value.push_back(-1);
        made.begin.push_back(int(made.column.size()));
    }
    return made;
}

static void multiply(const part &a, const vector &x, vector &y, std::size_t from, std::size_t to)
{
    for (std::size_t row = from; row < to; row++) {
        y[row] = 0;
        for (int i = a.begin[row]; i < a.begin[row + 1]; i++)
            y[row] += a.value[i] * x[a.column[i]];
    }
}

struct solution {
    vector x;
    int iterations = 0;
    bool direct; // neighbours read each other's vectors
};

static solution solve(const part &a, MPI_Comm ranks)
{
    os::mpi_ghost_plan<double> ghosts(ranks, a.lists, {a.ids.size(), 1, a.ids});
    solution found{vector(a.own), 0, ghosts.direct()};
    vector residual(a.own), direction(a.ids.size()), product(a.own);
    for (std::size_t i = 0; i < a.own; i++) // b, since x begins as zero
        residual[i] = direction[i] = std::sin(double(a.ids[i]));
    auto dot = [&](const vector &u, const vector &v) {
        double sum = std::inner_product(u.begin(), u.begin() + a.own, v.begin(), 0.0);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, ranks);
        return sum;
    };
    double square = dot(residual, residual), goal = square * 1e-24;
    for (; square > goal && found.iterations < 10000; found.iterations++) {
        ghosts.begin(direction);
        multiply(a, direction, product, 0, a.inner);
        ghosts.end();
        multiply(a, direction, product, a.inner, a.own);
        double step = square / dot(direction, product);
        for (std::size_t i = 0; i < a.own; i++) {
            found.x[i] += step * direction[i];
            residual[i] -= step * product[i];
        }
        double next = dot(residual, residual);
        for (std::size_t i = 0; i < a.own; i++)
            direction[i] = residual[i] + next / square * direction[i];
        square = next;
    }
    return found;
}

// True if the ranks' solution equals the serial one.
static bool run(int side, int rank, int size)
{
    auto mesh = make_mesh(side);
    std::vector<int> owner(mesh.edges.size()), points(owner.size());
    auto whole = make_part(mesh, owner, 0); // as long as rank 0 owns all
    std::iota(points.begin(), points.end(), 0);
    cut(mesh, points, 0, 0, size, owner);
    auto mine = make_part(mesh, owner, rank);

    auto ours = solve(mine, MPI_COMM_WORLD), serial = solve(whole, MPI_COMM_SELF);
    double away = 0;
    for (std::size_t i = 0; i < mine.own; i++)
        away = std::max(away, std::abs(ours.x[i] - serial.x[mine.ids[i]]));
    MPI_Allreduce(MPI_IN_PLACE, &away, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("%zu points on %d ranks (%s), %d iterations: %s the serial solution\n",
                    mesh.edges.size(), size, ours.direct ? "direct" : "buffers", ours.iterations,
                    away < 1e-8 ? "agrees with" : "DIFFERS from");
    return away < 1e-8;
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bool good = run(argc > 1 ? std::atoi(argv[1]) : 16, rank, size);
    MPI_Finalize();
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
