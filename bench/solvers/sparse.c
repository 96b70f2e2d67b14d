/* bench/solvers/sparse.c: the power method for a sparse matrix without structure, of as many rows
 * as the square has points: each rank has some rows, and in an iteration all ranks gather the whole
 * vector (MPI_Allgatherv) and its norm (MPI_Allreduce). The result is the estimate of the largest
 * eigenvalue. */
#include <math.h>
#include <mpi.h>
#include <stdint.h>

#include "../lib/bench.h"
#include "solver.h"

enum { NONZEROS = 16 }; /* in each row */

static int size, rows, first, *columns, *counts, *places;
static double *values, *vector, *image, eigenvalue;

static uint64_t random_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15;
    uint64_t mixed = (*state ^ *state >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

static void make(int edge, int rank, int ranks)
{
    size = edge * edge;
    counts = bench_allocate((size_t)ranks * sizeof(int));
    places = bench_allocate((size_t)ranks * sizeof(int));
    for (int i = 0; i < ranks; i++) {
        places[i] = (int)((long)size * i / ranks);
        counts[i] = (int)((long)size * (i + 1) / ranks) - places[i];
    }
    first = places[rank];
    rows = counts[rank];
    columns = bench_allocate((size_t)rows * NONZEROS * sizeof(*columns));
    values = bench_allocate((size_t)rows * NONZEROS * sizeof(*values));
    vector = bench_allocate((size_t)size * sizeof(*vector));
    image = bench_allocate((size_t)rows * sizeof(*image));
    for (int y = 0; y < rows; y++) {
        uint64_t state = (uint64_t)(first + y); /* the same matrix for any number of ranks */
        for (int i = 0; i < NONZEROS; i++) {
            columns[y * NONZEROS + i] = i ? (int)(random_next(&state) % (uint64_t)size) : first + y;
            values[y * NONZEROS + i] = i ? (double)(random_next(&state) % 1000) / 1000 : 4;
        }
    }
}

static void begin(void)
{
    for (int i = 0; i < size; i++)
        vector[i] = 1;
    eigenvalue = 0;
}

static void iterate(void)
{
    double mine = 0, all;
    for (int y = 0; y < rows; y++) {
        double sum = 0;
        for (int i = y * NONZEROS; i < (y + 1) * NONZEROS; i++)
            sum += values[i] * vector[columns[i]];
        image[y] = sum;
        mine += sum * sum;
    }
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    eigenvalue = sqrt(all);
    for (int y = 0; y < rows; y++)
        image[y] /= eigenvalue;
    MPI_Allgatherv(image, rows, MPI_DOUBLE, vector, counts, places, MPI_DOUBLE, MPI_COMM_WORLD);
}

static double result(void)
{
    return eigenvalue;
}

static void free_all(void)
{
    void *const all[] = {columns, values, vector, image, counts, places};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

const struct solver solver = {"sparse", 10, make, begin, iterate, result, free_all};
