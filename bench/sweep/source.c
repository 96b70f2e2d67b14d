/* bench/sweep/source.c: the sources, as moments in the part's cells.
 *
 * The source in direction a is the sum over moments of source * harmonic(a), with a factor of
 * 2 l + 1 for scattering of order l. */
#include <string.h>

#include "sweep.h"

/* Adds the scattering from one group into another. */
static void add_scattered(const struct worker *worker, int to, int from, double *into)
{
    const struct problem *p = worker->problem;
    const struct part *part = worker->part;
    const size_t moments = (size_t)p->moments;
    const double *flux = part->flux + (size_t)from * part->cells * moments;
    const double *sections = p->scatter + (size_t)((to * p->groups + from) * MATERIALS) * moments;
    for (size_t at = 0; at < part->cells; at++) {
        const double *own = sections + (size_t)material_at(worker, at) * moments;
        for (size_t l = 0; l < moments; l++)
            into[at * moments + l] += own[l] * flux[at * moments + l];
    }
}

/* Without a known solution, the cube in the middle of the box emits particles uniformly. */
void fixed_source(const struct worker *worker, int group)
{
    const struct problem *p = worker->problem;
    const struct part *part = worker->part;
    const size_t count = part->cells * (size_t)p->moments;
    double *into = part->fixed + (size_t)group * count;
    memset(into, 0, count * sizeof(double));
    for (size_t at = 0; at < part->cells && !p->is_known; at++)
        into[at * (size_t)p->moments] = material_at(worker, at) ? 1 : 0;
    for (int from = 0; from < p->groups; from++)
        if (from != group)
            add_scattered(worker, group, from, into);
}

void total_source(const struct worker *worker, int group)
{
    const struct part *part = worker->part;
    const size_t count = part->cells * (size_t)worker->problem->moments;
    double *into = part->source + (size_t)group * count;
    memcpy(into, part->fixed + (size_t)group * count, count * sizeof(double));
    add_scattered(worker, group, group, into);
}
