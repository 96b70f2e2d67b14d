/* bench/solvers/particles.c: molecular dynamics with a short-ranged force. The square, which
 * repeats in both directions, holds a particle for each point and is divided into one slab for each
 * rank. In an iteration, a step of time, particles that have left a slab move to the next, and each
 * rank gets copies of those near its borders: messages whose lengths change. The result is the
 * energy. */
#include <math.h>
#include <mpi.h>

#include "../lib/bench.h"
#include "solver.h"

#define SPACING 1.1 /* of the lattice at the beginning */
#define CUTOFF  2.5 /* of the force; a slab is higher */
#define STEP    0.002

enum { DOWN, UP, DIRECTIONS };

struct particle {
    double x, y, vx, vy, fx, fy;
};

static int points, first, rows, count, ghosts, capacity, neighbours[DIRECTIONS];
static double edge, lower, upper, potential;
static struct particle *particles; /* mine, then the copies of the neighbours' */
static struct particle *outgoing[DIRECTIONS];
static int cells_x, cells_y, *heads, *nexts; /* lists of the particles in each cell */

static void make(int points_, int rank, int ranks)
{
    points = points_;
    first = (int)((long)points * rank / ranks);
    rows = (int)((long)points * (rank + 1) / ranks) - first;
    edge = points * SPACING;
    lower = first * SPACING;
    upper = (first + rows) * SPACING;
    if (upper - lower < CUTOFF) {
        fprintf(stderr, "particles: %d points along an edge are too few for %d ranks\n", points,
                ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    neighbours[DOWN] = (rank + ranks - 1) % ranks;
    neighbours[UP] = (rank + 1) % ranks;
    capacity = (rows + 16) * points * 2; /* the density hardly changes */
    particles = bench_allocate((size_t)capacity * sizeof(*particles));
    for (int i = 0; i < DIRECTIONS; i++)
        outgoing[i] = bench_allocate((size_t)capacity * sizeof(*particles));
    cells_x = (int)(edge / CUTOFF);
    cells_y = (int)((upper - lower) / CUTOFF) + 2; /* one more below and above, for the copies */
    heads = bench_allocate((size_t)(cells_x * cells_y) * sizeof(*heads));
    nexts = bench_allocate((size_t)capacity * sizeof(*nexts));
}

/* Sends those of outgoing[] both ways; appends what arrives behind the `from` particles that are
 * there. Their new number. */
static int exchange(int from, const int counts[DIRECTIONS])
{
    for (int way = 0; way < DIRECTIONS; way++) {
        int arriving;
        MPI_Sendrecv(&counts[way], 1, MPI_INT, neighbours[way], way, &arriving, 1, MPI_INT,
                     neighbours[!way], way, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (from + arriving > capacity)
            MPI_Abort(MPI_COMM_WORLD, 3);
        MPI_Sendrecv(outgoing[way], 6 * counts[way], MPI_DOUBLE, neighbours[way], way,
                     particles + from, 6 * arriving, MPI_DOUBLE, neighbours[!way], way,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        from += arriving;
    }
    return from;
}

static void migrate(void)
{
    int counts[DIRECTIONS] = {0, 0}, kept = 0;
    for (int i = 0; i < count; i++) {
        struct particle one = particles[i];
        one.x -= edge * floor(one.x / edge);
        int way = one.y < lower ? DOWN : one.y >= upper ? UP : -1;
        one.y -= edge * floor(one.y / edge);
        if (way < 0)
            particles[kept++] = one;
        else
            outgoing[way][counts[way]++] = one;
    }
    count = exchange(kept, counts);
}

static void copy_borders(void)
{
    int counts[DIRECTIONS] = {0, 0};
    for (int i = 0; i < count; i++)
        for (int way = 0; way < DIRECTIONS; way++) {
            int is_near =
                way == DOWN ? particles[i].y < lower + CUTOFF : particles[i].y >= upper - CUTOFF;
            if (!is_near)
                continue;
            struct particle *copy = &outgoing[way][counts[way]++];
            *copy = particles[i];
            if (way == DOWN && first == 0) /* across the border of the square */
                copy->y += edge;
            else if (way == UP && first + rows == points)
                copy->y -= edge;
        }
    ghosts = exchange(count, counts) - count;
}

static void sort_into_cells(void)
{
    memset(heads, -1, (size_t)(cells_x * cells_y) * sizeof(*heads));
    for (int i = 0; i < count + ghosts; i++) {
        int x = (int)(particles[i].x * cells_x / edge);
        int y = (int)((particles[i].y - lower) * (cells_y - 2) / (upper - lower) + 1);
        x = x < 0 ? 0 : x >= cells_x ? cells_x - 1 : x;
        y = y < 0 ? 0 : y >= cells_y ? cells_y - 1 : y;
        nexts[i] = heads[y * cells_x + x];
        heads[y * cells_x + x] = i;
    }
}

/* The force of Lennard and Jones on one by another, and half of the pair's energy. */
static void interact(struct particle *one, const struct particle *other)
{
    double dx = one->x - other->x, dy = one->y - other->y;
    dx -= edge * rint(dx / edge);
    double square = dx * dx + dy * dy;
    if (square >= CUTOFF * CUTOFF || square == 0)
        return;
    double inverse = 1 / square, sixth = inverse * inverse * inverse;
    double force = 24 * inverse * sixth * (2 * sixth - 1);
    one->fx += force * dx;
    one->fy += force * dy;
    potential += 2 * sixth * (sixth - 1);
}

static void compute_forces(void)
{
    copy_borders();
    sort_into_cells();
    potential = 0;
    for (int i = 0; i < count; i++)
        particles[i].fx = particles[i].fy = 0;
    for (int y = 0; y < cells_y; y++)
        for (int x = 0; x < cells_x; x++)
            for (int i = heads[y * cells_x + x]; i >= 0; i = nexts[i])
                for (int near = 0; i < count && near < 9; near++) {
                    int near_x = (x + near % 3 - 1 + cells_x) % cells_x, near_y = y + near / 3 - 1;
                    if (near_y < 0 || near_y >= cells_y)
                        continue;
                    for (int j = heads[near_y * cells_x + near_x]; j >= 0; j = nexts[j])
                        if (j != i)
                            interact(&particles[i], &particles[j]);
                }
}

static void begin(void)
{
    count = 0;
    for (int y = first; y < first + rows; y++)
        for (int x = 0; x < points; x++)
            particles[count++] = (struct particle){(x + 0.5) * SPACING,
                                                   (y + 0.5) * SPACING,
                                                   sin(1.3 * x + 0.7 * y),
                                                   cos(0.9 * x - 1.1 * y),
                                                   0,
                                                   0};
    compute_forces();
}

static void iterate(void)
{
    for (int i = 0; i < count; i++) {
        struct particle *one = &particles[i];
        one->vx += STEP / 2 * one->fx;
        one->vy += STEP / 2 * one->fy;
        one->x += STEP * one->vx;
        one->y += STEP * one->vy;
    }
    migrate();
    compute_forces();
    for (int i = 0; i < count; i++) {
        particles[i].vx += STEP / 2 * particles[i].fx;
        particles[i].vy += STEP / 2 * particles[i].fy;
    }
}

static double result(void)
{
    double mine = potential, all;
    for (int i = 0; i < count; i++)
        mine += (particles[i].vx * particles[i].vx + particles[i].vy * particles[i].vy) / 2;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void free_all(void)
{
    void *const all[] = {particles, outgoing[DOWN], outgoing[UP], heads, nexts};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

const struct solver solver = {"particles", 10, make, begin, iterate, result, free_all};
