/* bench/sweep/known.c: a manufactured solution and its source.
 *
 * The manufactured flux of a group is strength * T(t) * S(x, y, z) * A(direction), where
 * T = t + t*t (1 in a steady state), S = sin sin sin, which is zero on the faces of the box to meet
 * the vacuum boundary condition, and A = 1 + a * direction, with mean 1. Its source follows from
 * the transport equation, with scattering from the moments of the discrete directions. */
#include <math.h>
#include <stdlib.h>

#include "sweep.h"

static const double PI = 3.14159265358979323846;
static const double slant[AXES] = {0.3, -0.2, 0.1};

static double strength(const struct problem *p, int group)
{
    return 1 + (double)group / p->groups;
}

static double time_factor(const struct problem *p, double time)
{
    return p->steps ? time + time * time : 1;
}

static double slope_in_time(const struct problem *p, double time)
{
    return p->steps ? 1 + 2 * time : 0;
}

static double directional(const struct problem *p, int octant, int angle)
{
    double value = 1;
    for (int axis = 0; axis < AXES; axis++)
        value += slant[axis] * signed_cosine(p, octant, axis, angle);
    return value;
}

/* S at the centre of a cell, and its derivatives. */
static double shape(const struct problem *p, const int cell[AXES], double slopes[AXES])
{
    const int cells[AXES] = {p->nx, p->ny, p->nz};
    double s[AXES], c[AXES];
    for (int axis = 0; axis < AXES; axis++) {
        double at = PI * (cell[axis] + 0.5) / cells[axis];
        s[axis] = sin(at);
        c[axis] = cos(at) * PI / (cells[axis] * p->width);
    }
    slopes[0] = c[0] * s[1] * s[2];
    slopes[1] = s[0] * c[1] * s[2];
    slopes[2] = s[0] * s[1] * c[2];
    return s[0] * s[1] * s[2];
}

/* into[angles]: the scattering source of the group in these directions, for S = T = 1. */
static void scattered(const struct problem *p, int group, int material, int octant, double *into)
{
    const double *harmonics = p->harmonics;
    const size_t n = (size_t)p->angles, of_octant = (size_t)p->moments * n;
    for (size_t l = 0; l < (size_t)p->moments; l++) {
        double moment = 0, source = 0;
        for (int o = 0; o < OCTANTS; o++)
            for (size_t m = 0; m < n; m++)
                moment += p->weight * harmonics[(size_t)o * of_octant + l * n + m] *
                          directional(p, o, (int)m);
        for (int from = 0; from < p->groups; from++)
            source += p->scatter[(size_t)((group * p->groups + from) * MATERIALS + material) *
                                     (size_t)p->moments +
                                 l] *
                      strength(p, from) * moment;
        for (size_t m = 0; m < n; m++)
            into[m] += source * harmonics[(size_t)octant * of_octant + l * n + m];
    }
}

/* Values of an octant that are the same in all cells; vectors of angles. */
struct octant {
    double *amount, *flow[AXES];   /* strength * A, and that times the cosines */
    double *scattering[MATERIALS]; /* the scattering source */
};

static void set_octant(struct octant *of, const struct problem *p, int group, int octant)
{
    for (int i = 0; i < MATERIALS; i++)
        scattered(p, group, i, octant, of->scattering[i] = zeros((size_t)p->angles));
    of->amount = zeros((size_t)p->angles);
    for (int m = 0; m < p->angles; m++)
        of->amount[m] = strength(p, group) * directional(p, octant, m);
    for (int axis = 0; axis < AXES; axis++) {
        of->flow[axis] = zeros((size_t)p->angles);
        for (int m = 0; m < p->angles; m++)
            of->flow[axis][m] = of->amount[m] * signed_cosine(p, octant, axis, m);
    }
}

static void free_octant(struct octant *of)
{
    free(of->amount);
    for (int axis = 0; axis < AXES; axis++)
        free(of->flow[axis]);
    for (int i = 0; i < MATERIALS; i++)
        free(of->scattering[i]);
}

static void source_in_octant(const struct worker *worker, int group, double time, int octant)
{
    const struct problem *p = worker->problem;
    const struct part *part = worker->part;
    const size_t n = (size_t)p->angles;
    const double now = time_factor(p, time), change = slope_in_time(p, time) / p->speed[group];
    double *into = part->known + (size_t)(group * OCTANTS + octant) * part->cells * n;
    struct octant of;
    set_octant(&of, p, group, octant);
    for (size_t at = 0; at < part->cells; at++, into += n) {
        int cell[AXES];
        double slopes[AXES];
        cell_at(worker, at, cell);
        const int material = is_inside(p, cell);
        const double *scattering = of.scattering[material], s = shape(p, cell, slopes);
        const double removal = change + now * p->total[group * MATERIALS + material];
        for (size_t m = 0; m < n; m++)
            into[m] = s * (removal * of.amount[m] - now * scattering[m]) +
                      now * (slopes[0] * of.flow[0][m] + slopes[1] * of.flow[1][m] +
                             slopes[2] * of.flow[2][m]);
    }
    free_octant(&of);
}

void known_source(const struct worker *worker, int group, double time)
{
    for (int octant = 0; octant < OCTANTS; octant++)
        source_in_octant(worker, group, time, octant);
}

double known_error(const struct worker *worker, int group)
{
    const struct problem *p = worker->problem;
    const double time = middle_of_step(p, p->steps - 1);
    const struct part *part = worker->part;
    double largest = 0, slopes[AXES];
    for (size_t at = 0; at < part->cells; at++) {
        int cell[AXES];
        cell_at(worker, at, cell);
        double wanted = strength(p, group) * time_factor(p, time) * shape(p, cell, slopes);
        double found = part->flux[((size_t)group * part->cells + at) * (size_t)p->moments];
        largest = fmax(largest, fabs(found - wanted));
    }
    return largest;
}
