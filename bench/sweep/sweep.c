/* bench/sweep/sweep.c: solves a transport problem and reports the time.
 *
 * usage, as an MPI job: sweep mpi|openmp|tasks WORKERS [NAME=VALUE]...
 *
 * WORKERS: threads or tasks of each part. Words, with their defaults:
 *   nx=32 ny=8 nz=8   cells of the box, of width=0.01 in each direction
 *   angles=32         in each octant
 *   groups=16         of energy
 *   orders=4          of scattering, with the squared number of moments
 *   steps=1           time steps of step=0.01; 0: a steady state
 *   inners=5 outers=100 tolerance=1e-4   when iterations end
 *   known=0           1: a source whose solution is known; otherwise one in the middle
 *   chunk=4           cells in x that are swept between two messages
 * Rank 0 prints
 *   solve PARTS SECONDS
 *   grind PARTS SECONDS     per cell, angle and sweep of a group, over all workers, as in SNAP
 *   sweeps PARTS COUNT      of groups
 *   flux PARTS VALUE        the largest
 *   error PARTS VALUE       the largest difference to the known solution; without one
 *   imbalance PARTS VALUE   the largest difference between a cell's gains and losses */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"

static double largest_flux(const struct worker *worker, int group)
{
    const size_t cells = worker->part->cells, moments = (size_t)worker->problem->moments;
    const double *flux = worker->part->flux + (size_t)group * cells * moments;
    double largest = flux[0];
    for (size_t at = 1; at < cells; at++)
        largest = fmax(largest, flux[at * moments]);
    return largest;
}

static void print_results(const struct worker *worker, double seconds, double flux, double quality)
{
    const struct problem *p = worker->problem;
    int parts, rank;
    MPI_Comm_size(worker->comm, &parts);
    MPI_Comm_rank(worker->comm, &rank);
    if (rank != 0 || worker->number != 0)
        return;
    double of_sweep = (double)p->nx * p->ny * p->nz * p->angles * OCTANTS;
    printf("solve %d %.9e\ngrind %d %.9e\n", parts, seconds, parts,
           seconds / (of_sweep * (double)worker->sweeps));
    printf("sweeps %d %ld\nflux %d %.15e\n", parts, worker->sweeps, parts, flux);
    printf("%s %d %.9e\n", p->is_known ? "error" : "imbalance", parts, quality);
}

static void work(struct worker *worker)
{
    worker_set_up(worker);
    largest_of_all(worker, largest_flux); /* a barrier; also touches all pages of the flux */
    double start = MPI_Wtime();
    solve(worker);
    double seconds = MPI_Wtime() - start; /* all end together: solve ends in a comparison */
    double flux = largest_of_all(worker, largest_flux);
    double quality = largest_of_all(worker, worker->problem->is_known ? known_error : imbalance);
    print_results(worker, seconds, flux, quality);
}

int main(int argc, char **argv)
{
    int provided, is_openmp = argc > 1 && strcmp(argv[1], "openmp") == 0;
    int wanted = is_openmp ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    int workers = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    struct problem problem = {.nx = 32,
                              .ny = 8,
                              .nz = 8,
                              .angles = 32,
                              .groups = 16,
                              .chunk = 4,
                              .orders = 4,
                              .steps = 1,
                              .inners = 5,
                              .outers = 100,
                              .width = 0.01,
                              .step = 0.01,
                              .tolerance = 1e-4};
    if (workers < 1)
        fail("usage: sweep mpi|openmp|tasks WORKERS [NAME=VALUE]...");
    if (provided < wanted)
        fail("this MPI has no MPI_THREAD_MULTIPLE");
    read_options(&problem, argv + 3);
    problem_set_up(&problem);
    run_form(argv[1], workers, &problem, work);
    MPI_Finalize();
    return 0;
}
