/* bench/sweep/forms.c: three ways to have several workers.
 *
 *   mpi      each rank is a part, with one worker
 *   openmp   each rank is a part; its threads share the groups out and speak for themselves, with a
 *            tag each (MPI_THREAD_MULTIPLE)
 *   tasks    ranks that are tasks of one space form teams; each team is a part, and its members,
 * who are ranks of their own, share the groups out */
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

static double largest_of_ranks(double value, MPI_Comm comm)
{
    double all;
    MPI_Allreduce(&value, &all, 1, MPI_DOUBLE, MPI_MAX, comm);
    return all;
}

/* ---- Ranks alone ---- */

static void meet_nobody(struct worker *worker)
{
    (void)worker;
}

static double largest_alone(struct worker *worker, double value)
{
    return largest_of_ranks(value, worker->comm);
}

static const struct form form_mpi = {meet_nobody, largest_alone};

static void allocate(struct part *part, const struct problem *problem)
{
    double **arrays[] = {&part->flux, &part->before, &part->source};
    for (int i = 0; i < 3; i++)
        if (!(*arrays[i] = calloc(1, part_bytes(part, problem))))
            fail("no memory");
}

/* ---- Threads ---- */

static void meet_threads(struct worker *worker)
{
    (void)worker;
#pragma omp barrier
}

static double largest_of_threads(struct worker *worker, double value)
{
    double *shared = worker->of_form; /* one for each thread, far from each other */
    shared[worker->number * 16] = value;
#pragma omp barrier
    if (worker->number == 0) {
        for (int i = 1; i < worker->count; i++)
            if (shared[i * 16] > value)
                value = shared[i * 16];
        shared[0] = largest_of_ranks(value, worker->comm);
    }
#pragma omp barrier
    value = shared[0];
#pragma omp barrier
    return value;
}

static const struct form form_openmp = {meet_threads, largest_of_threads};

static void run_here(const struct form *form, int workers, const struct problem *problem,
                     void (*work)(struct worker *))
{
    struct part part;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    part_cut(&part, problem, ranks, rank);
    allocate(&part, problem);
    double *shared = calloc((size_t)workers * 16, sizeof(double));
    if (!shared)
        fail("no memory");
#pragma omp parallel num_threads(workers)
    {
        struct worker worker = {.problem = problem, .part = &part, .form = form, .of_form = shared};
        worker.comm = MPI_COMM_WORLD;
        worker.number = omp_get_thread_num();
        worker.count = omp_get_num_threads();
        worker.tag = worker.number * DIRECTIONS;
        if (worker.count != workers)
            fail("OpenMP gives fewer threads than were wanted");
        work(&worker);
    }
    free(shared);
}

/* ---- Tasks ---- */

static void check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "sweep: %s: %s\n", what, strerror(-result));
        fail("the team cannot go on");
    }
}

static void meet_tasks(struct worker *worker)
{
    check(onespace_parallel_barrier(worker->of_form), "barrier");
}

static double largest_of_tasks(struct worker *worker, double value)
{
    check(onespace_parallel_reduce(worker->of_form, &value, 1, ONESPACE_PARALLEL_DOUBLE,
                                   ONESPACE_PARALLEL_MAX),
          "reduction");
    return largest_of_ranks(value, worker->comm);
}

static const struct form form_tasks = {meet_tasks, largest_of_tasks};

static void run_tasks(int workers, const struct problem *problem, void (*work)(struct worker *))
{
    struct onespace_parallel *team;
    struct part part;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks % workers)
        fail("the number of ranks is no multiple of the number of tasks in a team");
    check(onespace_parallel_join(&team, workers), "the ranks must be tasks: onespace run");
    struct worker worker = {.problem = problem, .part = &part, .form = &form_tasks};
    worker.of_form = team;
    worker.number = onespace_parallel_number(team);
    worker.count = onespace_parallel_count(team);
    MPI_Comm_split(MPI_COMM_WORLD, worker.number, rank, &worker.comm);
    part_cut(&part, problem, ranks / workers, rank / workers);
    double **arrays[] = {&part.flux, &part.before, &part.source};
    const char *names[] = {"flux", "before", "source"};
    for (int i = 0; i < 3; i++)
        check(onespace_parallel_shared(team, names[i], part_bytes(&part, problem),
                                       (void **)arrays[i]),
              "memory for the part");
    work(&worker);
    MPI_Comm_free(&worker.comm);
    check(onespace_parallel_fini(team), "end of the team");
}

void run_form(const char *name, int workers, struct problem *problem,
              void (*work)(struct worker *worker))
{
    if (strcmp(name, "mpi") == 0 && workers == 1)
        run_here(&form_mpi, workers, problem, work);
    else if (strcmp(name, "openmp") == 0)
        run_here(&form_openmp, workers, problem, work);
    else if (strcmp(name, "tasks") == 0)
        run_tasks(workers, problem, work);
    else
        fail("the form is mpi (with 1 worker), openmp or tasks");
}
