/* bench/solvers/fft.c: Fourier transforms of a square by FFTW's MPI library. Each rank has some
 * rows; a transform transposes the square twice among all ranks. An iteration is a transform and
 * its inverse. The result is the sum of the transform's magnitudes. */
#include <fftw3-mpi.h>
#include <math.h>

#include "solver.h"

static ptrdiff_t points, rows, first;
static fftw_complex *data;
static fftw_plan forward, back;

static void make(int edge, int rank, int ranks)
{
    (void)rank, (void)ranks;
    points = edge;
    fftw_mpi_init();
    ptrdiff_t size = fftw_mpi_local_size_2d(points, points, MPI_COMM_WORLD, &rows, &first);
    data = fftw_alloc_complex((size_t)size);
    if (!data)
        MPI_Abort(MPI_COMM_WORLD, 1);
    forward = fftw_mpi_plan_dft_2d(points, points, data, data, MPI_COMM_WORLD, FFTW_FORWARD,
                                   FFTW_ESTIMATE);
    back = fftw_mpi_plan_dft_2d(points, points, data, data, MPI_COMM_WORLD, FFTW_BACKWARD,
                                FFTW_ESTIMATE);
}

static double value(ptrdiff_t at)
{
    return sin(0.7 * (double)(first * points + at));
}

static void begin(void)
{
    for (ptrdiff_t i = 0; i < rows * points; i++) {
        data[i][0] = value(i);
        data[i][1] = 0;
    }
}

static void iterate(void)
{
    double scale = 1 / (double)(points * points);
    fftw_execute(forward);
    fftw_execute(back);
    for (ptrdiff_t i = 0; i < rows * points; i++) {
        data[i][0] *= scale;
        data[i][1] *= scale;
    }
}

static double result(void)
{
    double mine = 0, all;
    fftw_execute(forward);
    for (ptrdiff_t i = 0; i < rows * points; i++)
        mine += hypot(data[i][0], data[i][1]);
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void free_all(void)
{
    fftw_destroy_plan(forward);
    fftw_destroy_plan(back);
    fftw_free(data);
}

const struct solver solver = {"fft", 10, make, begin, iterate, result, free_all};
