/* bench/sweep/forms.c: three ways to have several workers.
 *
 *   mpi      each rank is a part, with one worker
 *   openmp   each rank is a part; its threads divide the groups among themselves and communicate
 *            with a tag each (MPI_THREAD_MULTIPLE)
 *   tasks    ranks that are tasks of one space form teams; each team is a part, whose members,
 *            themselves ranks, divide the groups among themselves */
#include <omp.h>
#include <onespace/parallel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"

void fail(const char *what)
{
    fprintf(stderr, "sweep: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* ---- Ranks alone, and threads ---- */

static void no_barrier(struct worker *worker)
{
    (void)worker;
}

static void barrier_of_threads(struct worker *worker)
{
    (void)worker;
#pragma omp barrier
}

static double *make_here(void *context, const char *name, size_t count)
{
    (void)context;
    (void)name;
    return zeros(count);
}

static void run_here(barrier_call *barrier, int workers, const struct problem *problem,
                     void (*work)(struct worker *))
{
    struct part part;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    part_decompose(&part, problem, ranks, rank);
    part_arrays(&part, problem, make_here, NULL);
#pragma omp parallel num_threads(workers)
    {
        struct worker worker = {.problem = problem, .part = &part, .barrier = barrier};
        worker.comm = MPI_COMM_WORLD;
        worker.number = omp_get_thread_num();
        worker.count = omp_get_num_threads();
        worker.tag = worker.number * DIRECTIONS;
        if (worker.count != workers)
            fail("OpenMP provides fewer threads than requested");
        work(&worker);
    }
}

/* ---- Tasks ---- */

static void check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "sweep: %s: %s\n", what, strerror(-result));
        fail("a member of the team has failed");
    }
}

static void barrier_of_tasks(struct worker *worker)
{
    check(onespace_parallel_barrier(worker->team), "barrier");
}

static double *make_shared(void *team, const char *name, size_t count)
{
    void *memory;
    check(onespace_parallel_shared(team, name, count * sizeof(double), &memory),
          "memory for the part");
    return memory;
}

static void run_tasks(int workers, const struct problem *problem, void (*work)(struct worker *))
{
    struct onespace_parallel *team;
    struct part part;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks % workers)
        fail("the number of ranks is not a multiple of the number of tasks in a team");
    check(onespace_parallel_join(&team, workers), "the ranks must be tasks: onespace run");
    struct worker worker = {
        .problem = problem, .part = &part, .barrier = barrier_of_tasks, .team = team};
    worker.number = onespace_parallel_number(team);
    worker.count = onespace_parallel_count(team);
    MPI_Comm_split(MPI_COMM_WORLD, worker.number, rank, &worker.comm);
    part_decompose(&part, problem, ranks / workers, rank / workers);
    part_arrays(&part, problem, make_shared, team);
    work(&worker);
    MPI_Comm_free(&worker.comm);
    check(onespace_parallel_fini(team), "end of the team");
}

void run_form(const char *name, int workers, const struct problem *problem,
              void (*work)(struct worker *worker))
{
    if (strcmp(name, "mpi") == 0 && workers == 1)
        run_here(no_barrier, workers, problem, work);
    else if (strcmp(name, "openmp") == 0)
        run_here(barrier_of_threads, workers, problem, work);
    else if (strcmp(name, "tasks") == 0)
        run_tasks(workers, problem, work);
    else
        fail("the form is mpi (with 1 worker), openmp or tasks");
}
