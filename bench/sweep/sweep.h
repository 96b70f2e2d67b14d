/* bench/sweep/sweep.h: a transport sweep in discrete ordinates.
 *
 * Particles of several energy groups fly in fixed directions through a box of cells; in each
 * direction a cell needs what leaves its three upstream neighbours first. The method is that of the
 * proxy application SNAP (Los Alamos), from its public description: diamond differences in space, a
 * vector of angles for each of the eight octants, scattering between groups by iteration, and the
 * KBA decomposition (Koch, Baker, Alcouffe): the box is cut in y and z, and the sweep of an octant
 * is a pipeline of chunks in x that runs diagonally through the parts. */
#ifndef SWEEP_H
#define SWEEP_H

#include <mpi.h>
#include <stddef.h>

enum { Y, Z, DIRECTIONS };
enum { MATERIALS = 2, OCTANTS = 8 };

/* What is to be solved: the same on all ranks. */
struct problem {
    int nx, ny, nz; /* cells of the whole unit cube */
    int angles;     /* per octant */
    int groups, chunk, iterations;
    int is_manufactured; /* with a source whose solution is known */
    double *cosines[3], weight;
    double *total;    /* [groups][MATERIALS]: cross sections */
    double *scatter;  /* [groups from][groups to] */
    double *strength; /* [groups] of the manufactured solution */
    double *h[3];     /* [angles]: 2 * cosine / cell width */
    double *inverse;  /* [groups][MATERIALS][angles]: of the sum of h and the cross section */
};

/* One rank's part of the cube, or that of a team of workers, which share its arrays. */
struct part {
    int parts[DIRECTIONS], at[DIRECTIONS];   /* how the cube is cut, and which part this is */
    int first[DIRECTIONS], size[DIRECTIONS]; /* its cells in y and z; in x it has all */
    size_t cells;
    double *flux, *before, *source; /* [groups][cells]; a worker writes its own groups only */
};

struct worker;
/* What differs between the forms of parallel work; both are collective over all workers. */
struct form {
    void (*meet)(struct worker *worker); /* of a part: waits, and orders memory */
    double (*largest)(struct worker *worker, double value); /* of all parts */
};

struct worker {
    const struct problem *problem;
    struct part *part;
    const struct form *form;
    void *of_form;
    MPI_Comm comm;             /* in which rank `part` is the same worker of that part */
    int tag;                   /* of this worker's messages */
    int number, count;         /* among the workers of the part */
    int groups[2];             /* its groups, from the first to before the second */
    double *x_faces;           /* [own groups][nz][ny][angles] */
    double *faces[DIRECTIONS]; /* of one chunk: [nz or ny][chunk][angles] */
    double *sent[DIRECTIONS][2];
    MPI_Request requests[DIRECTIONS][2];
    int turn;
};

static inline int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* ---- problem.c ---- */
void problem_set_up(struct problem *problem);
/* The manufactured flux at a cell's centre, without the group's strength, and its derivatives. */
double manufactured(const struct problem *problem, const int cell[3], double slopes[3]);
int material(const struct problem *problem, const int cell[3]);
/* Sources of the worker's groups from the fluxes of all. */
void source_of_groups(struct worker *worker);
/* The largest difference between flux and manufactured flux in the worker's groups. */
double error_of_groups(const struct worker *worker);

/* ---- part.c ---- */
void part_cut(struct part *part, const struct problem *problem, int ranks, int rank);
size_t part_bytes(const struct part *part, const struct problem *problem); /* of each array */
void worker_set_up(struct worker *worker);

/* ---- pipeline.c ---- */
/* Sweeps the worker's groups in all octants. */
void sweep(struct worker *worker);

/* ---- kernel.c ---- */
struct chunk {
    int octant, group, first, size; /* cells in x */
    double *x_faces;                /* [nz][ny][angles], of the group */
};
void sweep_chunk(struct worker *worker, const struct chunk *chunk);

/* ---- forms.c ---- */
/* Makes the workers of this rank and lets each call `work`; ends the program on failure. */
void run_form(const char *name, int workers, struct problem *problem,
              void (*work)(struct worker *worker));
void fail(const char *what);

static inline int is_backward(int octant, int axis)
{
    return octant >> axis & 1;
}

#endif
