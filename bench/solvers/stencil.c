/* bench/solvers/stencil.c: Jacobi's method for Laplace's equation on a square that is divided in
 * both directions. In an iteration each rank sends its outermost rows, which lie in one piece, and
 * columns, as an MPI_Type_vector, while it computes the inner points. The result is the mean of all
 * points. */
#include <math.h>
#include <mpi.h>

#include "../lib/bench.h"
#include "solver.h"

enum { NORTH, SOUTH, WEST, EAST, SIDES };

static int points, rows, columns, first_row, first_column, neighbours[SIDES];
static double *old, *new; /* (rows + 2) x (columns + 2), with the neighbours' points around */
static MPI_Comm grid;
static MPI_Datatype column;

static double *at(double *values, int y, int x)
{
    return values + (size_t)(y + 1) * (size_t)(columns + 2) + (size_t)(x + 1);
}

static int part_begin(int part, int parts)
{
    return (int)((long)points * part / parts);
}

static void make(int edge, int rank, int ranks)
{
    int sizes[2] = {0, 0}, periods[2] = {0, 0}, position[2];
    points = edge;
    MPI_Dims_create(ranks, 2, sizes);
    MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periods, 0, &grid);
    MPI_Cart_coords(grid, rank, 2, position);
    MPI_Cart_shift(grid, 0, 1, &neighbours[NORTH], &neighbours[SOUTH]);
    MPI_Cart_shift(grid, 1, 1, &neighbours[WEST], &neighbours[EAST]);
    first_row = part_begin(position[0], sizes[0]);
    rows = part_begin(position[0] + 1, sizes[0]) - first_row;
    first_column = part_begin(position[1], sizes[1]);
    columns = part_begin(position[1] + 1, sizes[1]) - first_column;
    MPI_Type_vector(rows, 1, columns + 2, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    size_t size = (size_t)(rows + 2) * (size_t)(columns + 2) * sizeof(double);
    old = bench_allocate(size);
    new = bench_allocate(size);
}

/* The border of the square is hot at the top and cold elsewhere. */
static void begin(void)
{
    for (int y = -1; y <= rows; y++)
        for (int x = -1; x <= columns; x++)
            *at(old, y, x) = *at(new, y, x) =
                first_row + y < 0 ? 1 : 0.5 * sin(0.01 * (double)(first_column + x));
}

static void relax(int y_begin, int y_end, int x_begin, int x_end)
{
    for (int y = y_begin; y < y_end; y++) {
        const double *in = at(old, y, 0), *above = at(old, y - 1, 0), *below = at(old, y + 1, 0);
        double *out = at(new, y, 0);
        for (int x = x_begin; x < x_end; x++)
            out[x] = 0.25 * (above[x] + below[x] + in[x - 1] + in[x + 1]);
    }
}

static void iterate(void)
{
    const struct {
        double *send, *receive;
        int count;
        MPI_Datatype type;
    } borders[SIDES] = {{at(old, 0, 0), at(old, -1, 0), columns, MPI_DOUBLE},
                        {at(old, rows - 1, 0), at(old, rows, 0), columns, MPI_DOUBLE},
                        {at(old, 0, 0), at(old, 0, -1), 1, column},
                        {at(old, 0, columns - 1), at(old, 0, columns), 1, column}};
    MPI_Request requests[2 * SIDES];
    for (int side = 0; side < SIDES; side++) /* to the south with the tag of the north, and so on */
        MPI_Irecv(borders[side].receive, borders[side].count, borders[side].type, neighbours[side],
                  side ^ 1, grid, &requests[side]);
    for (int side = 0; side < SIDES; side++)
        MPI_Isend(borders[side].send, borders[side].count, borders[side].type, neighbours[side],
                  side, grid, &requests[SIDES + side]);
    relax(1, rows - 1, 1, columns - 1);
    MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
    relax(0, 1, 0, columns);
    if (rows > 1)
        relax(rows - 1, rows, 0, columns);
    relax(1, rows - 1, 0, 1);
    if (columns > 1)
        relax(1, rows - 1, columns - 1, columns);
    double *swap = old;
    old = new;
    new = swap;
}

static double result(void)
{
    double mine = 0, all;
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < columns; x++)
            mine += *at(old, y, x);
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, grid);
    return all / ((double)points * points);
}

static void free_all(void)
{
    MPI_Type_free(&column);
    MPI_Comm_free(&grid);
    free(old);
    free(new);
}

const struct solver solver = {"stencil", 20, make, begin, iterate, result, free_all};
