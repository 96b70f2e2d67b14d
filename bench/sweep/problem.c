/* bench/sweep/problem.c: angles, materials, cross sections, sources and the solution that is known.
 *
 * The manufactured flux is strength(group) * sin(pi x) sin(pi y) sin(pi z) in all directions: it is
 * zero on the faces of the cube, as the vacuum around wants it, and its source follows from the
 * equation. */
#include <math.h>
#include <stdlib.h>

#include "sweep.h"

static const double PI = 3.14159265358979323846;

static double *numbers(size_t count)
{
    double *memory = aligned_alloc(64, (count * sizeof(double) + 63) / 64 * 64);
    if (!memory)
        fail("no memory");
    return memory;
}

/* Spread over an octant: the first cosine evenly, the angle around its axis by the golden ratio. */
static void set_angles(struct problem *p)
{
    int cells[3] = {p->nx, p->ny, p->nz};
    for (int axis = 0; axis < 3; axis++) {
        p->cosines[axis] = numbers((size_t)p->angles);
        p->h[axis] = numbers((size_t)p->angles);
    }
    for (int m = 0; m < p->angles; m++) {
        double first = (m + 0.5) / p->angles, rest = sqrt(1 - first * first);
        double around = PI / 2 * fmod((m + 0.5) * 0.6180339887498949, 1);
        double cosines[3] = {first, rest * cos(around), rest * sin(around)};
        for (int axis = 0; axis < 3; axis++) {
            p->cosines[axis][m] = cosines[axis];
            p->h[axis][m] = 2 * cosines[axis] * cells[axis];
        }
    }
    p->weight = 1.0 / (OCTANTS * p->angles);
}

/* Half of what collides is scattered: most stays in its group, the rest goes to lower energies. */
static void set_cross_sections(struct problem *p)
{
    p->total = numbers((size_t)p->groups * MATERIALS);
    p->scatter = numbers((size_t)p->groups * (size_t)p->groups);
    p->strength = numbers((size_t)p->groups);
    for (int g = 0; g < p->groups; g++) {
        p->total[g * MATERIALS] = 1 + 0.01 * g;
        p->total[g * MATERIALS + 1] = 2 * p->total[g * MATERIALS];
        p->strength[g] = 1 + (double)g / p->groups;
        for (int to = 0; to < p->groups; to++)
            p->scatter[g * p->groups + to] = to < g ? 0 : to == g ? 0.3 : 0.2 / (p->groups - g - 1);
    }
}

void problem_set_up(struct problem *p)
{
    set_angles(p);
    set_cross_sections(p);
    p->inverse = numbers((size_t)p->groups * MATERIALS * (size_t)p->angles);
    for (int i = 0; i < p->groups * MATERIALS; i++)
        for (int m = 0; m < p->angles; m++)
            p->inverse[i * p->angles + m] =
                1 / (p->total[i] + p->h[0][m] + p->h[1][m] + p->h[2][m]);
}

double manufactured(const struct problem *p, const int cell[3], double slopes[3])
{
    const int cells[3] = {p->nx, p->ny, p->nz};
    double s[3], c[3];
    for (int axis = 0; axis < 3; axis++) {
        double at = PI * (cell[axis] + 0.5) / cells[axis];
        s[axis] = sin(at);
        c[axis] = cos(at);
    }
    if (slopes) {
        slopes[0] = PI * c[0] * s[1] * s[2];
        slopes[1] = PI * s[0] * c[1] * s[2];
        slopes[2] = PI * s[0] * s[1] * c[2];
    }
    return s[0] * s[1] * s[2];
}

/* A denser cube of half the length in the middle. */
int material(const struct problem *p, const int cell[3])
{
    return 4 * cell[0] >= p->nx && 4 * cell[0] < 3 * p->nx && 4 * cell[1] >= p->ny &&
           4 * cell[1] < 3 * p->ny && 4 * cell[2] >= p->nz && 4 * cell[2] < 3 * p->nz;
}

/* What scatters into `group` is what all groups had: the same for every cell's flux vector. */
static double scattered(const struct problem *p, const double *flux, size_t stride, int group)
{
    double sum = 0;
    for (int from = 0; from <= group; from++)
        sum += p->scatter[from * p->groups + group] * flux[(size_t)from * stride];
    return sum;
}

static double outer_source(const struct problem *p, const int cell[3], int group)
{
    if (!p->is_manufactured)
        return 1;
    double shape = manufactured(p, cell, NULL);
    return shape * (p->total[group * MATERIALS + material(p, cell)] * p->strength[group] -
                    scattered(p, p->strength, 1, group));
}

static void each_cell(const struct worker *worker, int group, double *into,
                      double (*value)(const struct worker *, const int cell[3], size_t at,
                                      int group))
{
    const struct part *part = worker->part;
    size_t at = 0;
    for (int k = 0; k < part->size[Z]; k++)
        for (int j = 0; j < part->size[Y]; j++)
            for (int i = 0; i < worker->problem->nx; i++, at++) {
                int cell[3] = {i, part->first[Y] + j, part->first[Z] + k};
                into[at] = value(worker, cell, at, group);
            }
}

static double source_at(const struct worker *worker, const int cell[3], size_t at, int group)
{
    const struct part *part = worker->part;
    return outer_source(worker->problem, cell, group) +
           scattered(worker->problem, part->flux + at, part->cells, group);
}

void source_of_groups(struct worker *worker)
{
    struct part *part = worker->part;
    for (int g = worker->groups[0]; g < worker->groups[1]; g++)
        each_cell(worker, g, part->source + (size_t)g * part->cells, source_at);
}

static double error_at(const struct worker *worker, const int cell[3], size_t at, int group)
{
    const struct part *part = worker->part;
    return fabs(part->flux[(size_t)group * part->cells + at] -
                worker->problem->strength[group] * manufactured(worker->problem, cell, NULL));
}

double error_of_groups(const struct worker *worker)
{
    double largest = 0, *errors = numbers(worker->part->cells);
    for (int g = worker->groups[0]; g < worker->groups[1]; g++) {
        each_cell(worker, g, errors, error_at);
        for (size_t i = 0; i < worker->part->cells; i++)
            largest = fmax(largest, errors[i]);
    }
    free(errors);
    return largest;
}
