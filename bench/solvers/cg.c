/* bench/solvers/cg.c: conjugate gradients for Poisson's equation on a square. Each rank has some
 * rows; in an iteration a row goes to each neighbour, and two dot products are an MPI_Allreduce of
 * 8 bytes each. The result is the norm of the solution. */
#include <math.h>
#include <mpi.h>

#include "../lib/bench.h"
#include "solver.h"

static int points, rows, first, above, below;
static double square; /* of the norm of the residual */

/* The rank's rows, with a row of a neighbour, or zero, above and below them. */
static double *solution, *residual, *direction, *image;

static double *row(double *vector, int at)
{
    return vector + (size_t)(at + 1) * (size_t)points;
}

static void make(int edge, int rank, int ranks)
{
    points = edge;
    first = (int)((long)points * rank / ranks);
    rows = (int)((long)points * (rank + 1) / ranks) - first;
    above = rank ? rank - 1 : MPI_PROC_NULL;
    below = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    size_t size = (size_t)(rows + 2) * (size_t)points;
    solution = bench_allocate(size * sizeof(double));
    residual = bench_allocate(size * sizeof(double));
    direction = bench_allocate(size * sizeof(double));
    image = bench_allocate(size * sizeof(double));
}

static void exchange(double *vector)
{
    MPI_Sendrecv(row(vector, 0), points, MPI_DOUBLE, above, 0, row(vector, rows), points,
                 MPI_DOUBLE, below, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(row(vector, rows - 1), points, MPI_DOUBLE, below, 0, row(vector, -1), points,
                 MPI_DOUBLE, above, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static double dot(double *one, double *other)
{
    const double *a = row(one, 0), *b = row(other, 0);
    double mine = 0, all;
    for (int i = 0; i < rows * points; i++)
        mine += a[i] * b[i];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* image = A direction */
static void apply(void)
{
    exchange(direction);
    for (int y = 0; y < rows; y++) {
        const double *in = row(direction, y);
        double *out = row(image, y);
        for (int x = 0; x < points; x++)
            out[x] = 4 * in[x] - in[x - points] - in[x + points] - (x ? in[x - 1] : 0) -
                     (x + 1 < points ? in[x + 1] : 0);
    }
}

/* one = a one + b other */
static void combine(double *one, double a, double *other, double b)
{
    double *to = row(one, 0);
    const double *from = row(other, 0);
    for (int i = 0; i < rows * points; i++)
        to[i] = a * to[i] + b * from[i];
}

static void begin(void)
{
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < points; x++) {
            row(solution, y)[x] = 0;
            row(direction, y)[x] = row(residual, y)[x] = sin(0.05 * (first + y)) + cos(0.03 * x);
        }
    square = dot(residual, residual);
}

static void iterate(void)
{
    apply();
    double before = square, step = before / dot(direction, image);
    combine(solution, 1, direction, step);
    combine(residual, 1, image, -step);
    square = dot(residual, residual);
    combine(direction, square / before, residual, 1);
}

static double result(void)
{
    return sqrt(dot(solution, solution));
}

static void free_all(void)
{
    free(solution);
    free(residual);
    free(direction);
    free(image);
}

const struct solver solver = {"cg", 20, make, begin, iterate, result, free_all};
