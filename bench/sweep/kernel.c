/* bench/sweep/kernel.c: the cells of a chunk, one after the other, all angles of an octant at once.
 *
 * Diamond differences: the flux in a cell's centre is the mean of those on opposite faces. With it
 * the balance of a cell gives the centre from the three inflows, and then the outflows, which take
 * the inflows' place. */
#include "sweep.h"

struct angles {
    const double *restrict h[3], *restrict inverse, *restrict cosines[3];
    double weight;
    int count;
};

static double cell_flat(const struct angles *a, double source, double *restrict x,
                        double *restrict y, double *restrict z)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int m = 0; m < a->count; m++) {
        double centre =
            (source + a->h[0][m] * x[m] + a->h[1][m] * y[m] + a->h[2][m] * z[m]) * a->inverse[m];
        x[m] = 2 * centre - x[m];
        y[m] = 2 * centre - y[m];
        z[m] = 2 * centre - z[m];
        sum += centre;
    }
    return sum * a->weight;
}

/* The manufactured source differs by angle: slopes have the octant's signs already. */
static double cell_sloped(const struct angles *a, double source, const double slopes[3],
                          double *restrict x, double *restrict y, double *restrict z)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int m = 0; m < a->count; m++) {
        double here = source + slopes[0] * a->cosines[0][m] + slopes[1] * a->cosines[1][m] +
                      slopes[2] * a->cosines[2][m];
        double centre =
            (here + a->h[0][m] * x[m] + a->h[1][m] * y[m] + a->h[2][m] * z[m]) * a->inverse[m];
        x[m] = 2 * centre - x[m];
        y[m] = 2 * centre - y[m];
        z[m] = 2 * centre - z[m];
        sum += centre;
    }
    return sum * a->weight;
}

static void find_slopes(const struct problem *problem, const struct chunk *chunk, const int cell[3],
                        double slopes[3])
{
    manufactured(problem, cell, slopes);
    for (int axis = 0; axis < 3; axis++)
        slopes[axis] *=
            problem->strength[chunk->group] * (is_backward(chunk->octant, axis) ? -1 : 1);
}

static int placed(int at, int size, int backward)
{
    return backward ? size - 1 - at : at;
}

void sweep_chunk(struct worker *worker, const struct chunk *chunk)
{
    const struct problem *problem = worker->problem;
    const struct part *part = worker->part;
    const int ny = part->size[Y], nz = part->size[Z], n = problem->angles, o = chunk->octant;
    const double *sources = part->source + (size_t)chunk->group * part->cells;
    double *flux = part->flux + (size_t)chunk->group * part->cells;
    struct angles angles = {{problem->h[0], problem->h[1], problem->h[2]},
                            NULL,
                            {problem->cosines[0], problem->cosines[1], problem->cosines[2]},
                            problem->weight,
                            n};
    for (int kk = 0; kk < nz; kk++) {
        int k = placed(kk, nz, is_backward(o, 2));
        for (int jj = 0; jj < ny; jj++) {
            int j = placed(jj, ny, is_backward(o, 1));
            double *x = chunk->x_faces + ((size_t)k * (size_t)ny + (size_t)j) * (size_t)n;
            for (int ii = 0; ii < chunk->size; ii++) {
                int i = placed(ii, chunk->size, is_backward(o, 0));
                int cell[3] = {chunk->first + i, part->first[Y] + j, part->first[Z] + k};
                double *y =
                    worker->faces[Y] + ((size_t)k * (size_t)problem->chunk + (size_t)i) * (size_t)n;
                double *z =
                    worker->faces[Z] + ((size_t)j * (size_t)problem->chunk + (size_t)i) * (size_t)n;
                size_t at =
                    ((size_t)k * (size_t)ny + (size_t)j) * (size_t)problem->nx + (size_t)cell[0];
                angles.inverse =
                    problem->inverse +
                    (size_t)(chunk->group * MATERIALS + material(problem, cell)) * (size_t)n;
                if (problem->is_manufactured) {
                    double slopes[3];
                    find_slopes(problem, chunk, cell, slopes);
                    flux[at] += cell_sloped(&angles, sources[at], slopes, x, y, z);
                } else {
                    flux[at] += cell_flat(&angles, sources[at], x, y, z);
                }
            }
        }
    }
}
