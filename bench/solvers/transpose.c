/* bench/solvers/transpose.c: Fourier transforms of a square. Each rank transforms its rows (radix
 * 2), all ranks transpose the square by MPI_Alltoallv, each transforms its rows again, and the
 * inverse follows: an iteration is both, with two transposes. The result is the sum of the
 * transform's magnitudes. */
#include <complex.h>
#include <math.h>
#include <mpi.h>

#include "../lib/bench.h"
#include "solver.h"

static int points, rows, first, rank_count;
static double complex *data, *packed, *roots;
static int *send_counts, *send_places, *receive_counts, *receive_places; /* in doubles */

static int first_of(int rank)
{
    return (int)((long)points * rank / rank_count);
}

static void make(int edge, int rank, int ranks)
{
    points = edge;
    rank_count = ranks;
    first = first_of(rank);
    rows = first_of(rank + 1) - first;
    if (points & (points - 1)) {
        fprintf(stderr, "transpose: %d points along an edge: not a power of two\n", points);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    size_t size = (size_t)rows * (size_t)points * sizeof(*data),
           bytes = (size_t)ranks * sizeof(int);
    data = bench_allocate(size);
    packed = bench_allocate(size);
    roots = bench_allocate((size_t)points * sizeof(*roots));
    send_counts = bench_allocate(bytes), send_places = bench_allocate(bytes);
    receive_counts = bench_allocate(bytes), receive_places = bench_allocate(bytes);
    for (int i = 0; i < points; i++)
        roots[i] = cexp(-2 * acos(-1) * I * i / points);
    for (int i = 0; i < ranks;
         i++) { /* a block of rows x its_rows goes to each rank, and comes from it */
        int its_first = first_of(i), its_rows = first_of(i + 1) - its_first;
        send_counts[i] = receive_counts[i] = 2 * rows * its_rows;
        send_places[i] = receive_places[i] = 2 * rows * its_first;
    }
}

static void begin(void)
{
    for (long i = 0; i < (long)rows * points; i++)
        data[i] = sin(0.7 * (double)((long)first * points + i));
}

static void transform_row(double complex *row, int is_inverse)
{
    for (int i = 1, reversed = 0; i < points; i++) {
        int bit = points >> 1;
        for (; reversed & bit; bit >>= 1)
            reversed ^= bit;
        reversed |= bit;
        if (i < reversed) {
            double complex swap = row[i];
            row[i] = row[reversed];
            row[reversed] = swap;
        }
    }
    for (int half = 1; half < points; half *= 2)
        for (int start = 0; start < points; start += 2 * half)
            for (int i = 0; i < half; i++) {
                double complex root = roots[i * (points / (2 * half))];
                double complex odd = row[start + half + i] * (is_inverse ? conj(root) : root);
                row[start + half + i] = row[start + i] - odd;
                row[start + i] += odd;
            }
}

/* Packs the block for each rank, transposed, into one piece. A block that arrives has this rank's
 * rows of the transposed square, each with the sender's columns. */
static void transpose(void)
{
    double complex *to = packed;
    for (int x = 0; x < points; x++) /* blocks lie one after another, as the columns do */
        for (int y = 0; y < rows; y++)
            *to++ = data[(size_t)y * (size_t)points + (size_t)x];
    MPI_Alltoallv(packed, send_counts, send_places, MPI_DOUBLE, data, receive_counts,
                  receive_places, MPI_DOUBLE, MPI_COMM_WORLD);
    const double complex *from = data;
    for (int i = 0; i < rank_count; i++) {
        int its_first = first_of(i), its_rows = first_of(i + 1) - its_first;
        for (int y = 0; y < rows; y++, from += its_rows)
            memcpy(&packed[(size_t)y * (size_t)points + (size_t)its_first], from,
                   (size_t)its_rows * sizeof(*from));
    }
    double complex *swap = data;
    data = packed;
    packed = swap;
}

static void transform(int is_inverse)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int y = 0; y < rows; y++)
            transform_row(data + (size_t)y * (size_t)points, is_inverse);
        transpose();
    }
}

static void iterate(void)
{
    double scale = 1 / ((double)points * points);
    transform(0);
    transform(1);
    for (long i = 0; i < (long)rows * points; i++)
        data[i] *= scale;
}

static double result(void)
{
    double mine = 0, all;
    transform(0);
    for (long i = 0; i < (long)rows * points; i++)
        mine += cabs(data[i]);
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void free_all(void)
{
    void *const all[] = {data,        packed,         roots,         send_counts,
                         send_places, receive_counts, receive_places};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

const struct solver solver = {"transpose", 4, make, begin, iterate, result, free_all};
