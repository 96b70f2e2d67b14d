/* bench/sweep/solve.c: time steps, and in each outer and inner iterations.
 *
 * An inner iteration sweeps all groups once, with the within-group scattering source of the
 * previous iteration; a group has converged when its flux changes by at most the tolerance. An
 * outer iteration updates the source from the other groups. After the last one of a time step an
 * additional sweep advances the flux from the step's beginning to its end, so that one copy of it
 * suffices. Groups that have not converged are redistributed to the workers of a part each time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"

/* Changes of fluxes below this are absolute, not relative. */
static const double TINY = 1e-12;

static void assign_groups(struct worker *worker)
{
    int next = 0;
    worker->own = 0;
    for (int g = 0; g < worker->problem->groups; g++)
        if (!worker->is_done[g] && next++ % worker->count == worker->number)
            worker->groups[worker->own++] = g;
}

static void assign_all_groups(struct worker *worker)
{
    memset(worker->is_done, 0, (size_t)worker->problem->groups);
    assign_groups(worker);
}

/* The comparison's half of the double buffer. All have read its old values: there was a barrier
 * since the comparison before the last. */
static double *own_comparison(const struct worker *worker)
{
    return worker->part->largest + (worker->comparisons % 2) * (unsigned)worker->problem->groups;
}

/* The maximum of each group over all parts; orders all memory of a part. */
static const double *compare(struct worker *worker)
{
    double *values = own_comparison(worker);
    worker->comparisons++;
    worker->barrier(worker);
    if (worker->number == 0)
        MPI_Allreduce(MPI_IN_PLACE, values, worker->problem->groups, MPI_DOUBLE, MPI_MAX,
                      worker->comm);
    worker->barrier(worker);
    return values;
}

double largest_of_all(struct worker *worker, double value(const struct worker *, int group))
{
    double largest = 0;
    assign_all_groups(worker);
    for (int i = 0; i < worker->own; i++)
        own_comparison(worker)[worker->groups[i]] = value(worker, worker->groups[i]);
    const double *values = compare(worker);
    for (int g = 0; g < worker->problem->groups; g++)
        largest = fmax(largest, values[g]);
    return largest;
}

static double change(const struct worker *worker, int group, const double *before)
{
    const size_t cells = worker->part->cells, moments = (size_t)worker->problem->moments;
    const double *flux = worker->part->flux + (size_t)group * cells * moments;
    double largest = 0;
    before += (size_t)group * cells;
    for (size_t at = 0; at < cells; at++) {
        double now = flux[at * moments], was = before[at];
        largest = fmax(largest, fabs(was) < TINY ? fabs(now) : fabs(now / was - 1));
    }
    return largest;
}

static double change_in_inner(const struct worker *worker, int group)
{
    return change(worker, group, worker->part->before);
}

static double change_in_outer(const struct worker *worker, int group)
{
    return change(worker, group, worker->part->earlier);
}

static void save_flux(const struct worker *worker, int group, double *into)
{
    const size_t cells = worker->part->cells, moments = (size_t)worker->problem->moments;
    for (size_t at = 0; at < cells; at++)
        into[(size_t)group * cells + at] =
            worker->part->flux[((size_t)group * cells + at) * moments];
}

static void clear(const struct worker *worker, int group)
{
    struct part *part = worker->part;
    const size_t moments = part->cells * (size_t)worker->problem->moments;
    memset(part->flux + (size_t)group * moments, 0, moments * sizeof(double));
    memset(part->outflow + (size_t)group * part->cells, 0, part->cells * sizeof(double));
}

/* 0 when all groups have converged. */
static int inner(struct worker *worker, int is_end_of_step)
{
    int remaining = 0;
    assign_groups(worker);
    for (int i = 0; i < worker->own; i++) {
        total_source(worker, worker->groups[i]);
        save_flux(worker, worker->groups[i], worker->part->before);
        clear(worker, worker->groups[i]);
    }
    sweep(worker, is_end_of_step);
    for (int i = 0; i < worker->own; i++)
        own_comparison(worker)[worker->groups[i]] = change_in_inner(worker, worker->groups[i]);
    const double *changes = compare(worker);
    for (int g = 0; g < worker->problem->groups; g++) {
        worker->sweeps += !worker->is_done[g];
        worker->is_done[g] |= changes[g] <= worker->problem->tolerance;
        remaining += !worker->is_done[g];
    }
    return remaining;
}

/* 0 when inner and outer iterations have converged. */
static int outer(struct worker *worker, int inners, int is_end_of_step)
{
    int remaining = 1;
    assign_all_groups(worker);
    for (int i = 0; i < worker->own; i++) {
        fixed_source(worker, worker->groups[i]);
        save_flux(worker, worker->groups[i], worker->part->earlier);
    }
    worker->barrier(worker); /* all have read all fluxes */
    for (int i = 0; i < inners && remaining; i++)
        remaining = inner(worker, is_end_of_step);
    return largest_of_all(worker, change_in_outer) > 100 * worker->problem->tolerance || remaining;
}

/* The inverses of the flux's factor in the cells' balance. */
static void invert(const struct worker *worker, int group)
{
    const struct problem *p = worker->problem;
    const struct part *part = worker->part;
    const size_t n = (size_t)p->angles;
    double *into = part->inverse + (size_t)group * part->cells * n;
    for (size_t at = 0; at < part->cells; at++, into += n) {
        double fixed =
            p->total[group * MATERIALS + material_at(worker, at)] + edge_factor(p, group);
        for (size_t m = 0; m < n; m++)
            into[m] = 1 / (fixed + p->h[0][m] + p->h[1][m] + p->h[2][m]);
    }
}

static void solve_step(struct worker *worker, int step)
{
    const struct problem *p = worker->problem;
    assign_all_groups(worker);
    for (int i = 0; i < worker->own; i++) {
        invert(worker, worker->groups[i]);
        clear(worker, worker->groups[i]);
        if (p->is_known)
            known_source(worker, worker->groups[i], middle_of_step(p, step));
    }
    worker->barrier(worker);
    for (int i = 0; i < p->outers; i++)
        if (!outer(worker, p->inners, 0) && i > 0)
            break;
    if (p->steps)
        outer(worker, 1, 1);
}

/* Writes the pages: if a read touched them first, they would map the zero page, and the first store
 * would need a TLB shootdown on all CPUs of the address space. */
static void clear_edges(struct worker *worker)
{
    const size_t of_group = (size_t)OCTANTS * worker->part->cells * (size_t)worker->problem->angles;
    assign_all_groups(worker);
    for (int i = 0; i < worker->own; i++)
        memset(worker->part->edge + (size_t)worker->groups[i] * of_group, 0,
               of_group * sizeof(double));
}

void solve(struct worker *worker)
{
    clear_edges(worker);
    for (int step = 0; step == 0 || step < worker->problem->steps; step++)
        solve_step(worker, step);
}

double imbalance(const struct worker *worker, int group)
{
    const struct problem *p = worker->problem;
    const struct part *part = worker->part;
    const size_t moments = (size_t)p->moments, n = (size_t)p->angles;
    double largest = 0, *means = zeros(moments); /* of the harmonics */
    for (size_t i = 0; i < OCTANTS * moments * n; i++)
        means[i / n % moments] += p->weight * p->harmonics[i];
    for (size_t at = 0; at < part->cells; at++) {
        size_t place = (size_t)group * part->cells + at;
        double difference =
            part->outflow[place] +
            p->total[group * MATERIALS + material_at(worker, at)] * part->flux[place * moments];
        for (size_t l = 0; l < moments; l++)
            difference -= means[l] * part->source[place * moments + l];
        largest = fmax(largest, fabs(difference));
    }
    free(means);
    return largest;
}
