/* bench/sweep/sweep.c: solves a transport problem and says how long it took.
 *
 * usage, as an MPI job: sweep mpi|openmp|tasks WORKERS NX NY NZ ANGLES GROUPS CHUNK ITERATIONS
 * [known]
 *
 * WORKERS: threads or tasks of each part. CHUNK: cells in x that are swept between two messages.
 * Prints, on rank 0, "solve RANKS SECONDS", "grind RANKS SECONDS" (for a cell, angle, group and
 * iteration, all workers together), "change RANKS VALUE" (of the flux in the last iteration) and
 * "flux RANKS VALUE" (the largest); with `known`, a problem whose solution is known, also
 * "error RANKS VALUE", the largest difference to it. RANKS is the number of parts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"

/* One iteration; gives how much the worker's fluxes changed. */
static double iterate(struct worker *worker)
{
    struct part *part = worker->part;
    size_t own = (size_t)worker->groups[0] * part->cells;
    size_t count = (size_t)(worker->groups[1] - worker->groups[0]) * part->cells;
    double change = 0;
    source_of_groups(worker);
    worker->form->meet(worker); /* all have read all fluxes */
    memcpy(part->before + own, part->flux + own, count * sizeof(double));
    memset(part->flux + own, 0, count * sizeof(double));
    sweep(worker);
    for (size_t i = own; i < own + count; i++)
        change = fmax(change, fabs(part->flux[i] - part->before[i]));
    return change;
}

static double largest_flux(const struct worker *worker)
{
    const struct part *part = worker->part;
    double largest = 0;
    for (size_t i = (size_t)worker->groups[0] * part->cells;
         i < (size_t)worker->groups[1] * part->cells; i++)
        largest = fmax(largest, part->flux[i]);
    return largest;
}

static void say(const struct worker *worker, double seconds, double change, double flux,
                double error)
{
    const struct problem *p = worker->problem;
    int ranks, rank;
    MPI_Comm_size(worker->comm, &ranks);
    MPI_Comm_rank(worker->comm, &rank);
    if (rank != 0 || worker->number != 0)
        return;
    double work = (double)p->nx * p->ny * p->nz * p->angles * OCTANTS * p->groups * p->iterations;
    printf("solve %d %.9e\ngrind %d %.9e\nchange %d %.9e\nflux %d %.15e\n", ranks, seconds, ranks,
           seconds / work, ranks, change, ranks, flux);
    if (p->is_manufactured)
        printf("error %d %.9e\n", ranks, error);
}

static void work(struct worker *worker)
{
    double change = 0, error = 0;
    worker_set_up(worker);
    worker->form->largest(worker, 0); /* all are there */
    double start = MPI_Wtime();
    /* Each iteration ends with the convergence test; it also says that all fluxes are there. */
    for (int i = 0; i < worker->problem->iterations; i++)
        change = worker->form->largest(worker, iterate(worker));
    double seconds = worker->form->largest(worker, MPI_Wtime() - start);
    double flux = worker->form->largest(worker, largest_flux(worker));
    if (worker->problem->is_manufactured)
        error = worker->form->largest(worker, error_of_groups(worker));
    say(worker, seconds, change, flux, error);
}

int main(int argc, char **argv)
{
    int provided, is_openmp = argc > 1 && strcmp(argv[1], "openmp") == 0;
    int wanted = is_openmp ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    struct problem problem = {0};
    int workers = argc > 2 ? atoi(argv[2]) : 0;
    int *numbers[] = {&problem.nx,     &problem.ny,    &problem.nz,        &problem.angles,
                      &problem.groups, &problem.chunk, &problem.iterations};
    int good = argc == 10 || (argc == 11 && strcmp(argv[10], "known") == 0);
    for (int i = 0; i < 7 && good; i++)
        good = (*numbers[i] = atoi(argv[i + 3])) > 0;
    if (!good || workers < 1)
        fail("usage: sweep mpi|openmp|tasks WORKERS NX NY NZ ANGLES GROUPS CHUNK ITERATIONS "
             "[known]");
    if (provided < wanted)
        fail("this MPI has no MPI_THREAD_MULTIPLE");
    problem.is_manufactured = argc == 11;
    problem_set_up(&problem);
    run_form(argv[1], workers, &problem, work);
    MPI_Finalize();
    return 0;
}
