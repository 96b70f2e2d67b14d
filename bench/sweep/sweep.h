/* bench/sweep/sweep.h: a transport sweep in discrete ordinates.
 *
 * Particles of several energy groups fly in fixed directions through a box of cells; in each
 * direction a cell depends on the outflows of its three upstream neighbours. The method is that of
 * the proxy application SNAP (Los Alamos), from its public description: diamond differences in
 * space and time, a vector of angles for each of the eight octants, anisotropic scattering between
 * groups by outer and inner iterations, and the KBA decomposition (Koch, Baker, Alcouffe): the box
 * is decomposed in y and z, and the sweep of an octant is a pipeline of chunks in x that runs
 * diagonally through the parts. */
#ifndef SWEEP_H
#define SWEEP_H

#include <mpi.h>
#include <stddef.h>

enum { Y, Z, DIRECTIONS };
enum { MATERIALS = 2, OCTANTS = 8, AXES = 3 };

/* The problem: the same on all ranks. */
struct problem {
    int nx, ny, nz; /* cells of the whole box */
    int angles;     /* per octant */
    int groups, chunk;
    int orders, moments;       /* of scattering: moments = orders squared */
    int steps, inners, outers; /* time steps, 0: a steady state; iterations at most */
    int is_known;              /* the source's solution is known */
    double width, step;        /* of a cell; of time */
    double tolerance;          /* of relative changes of the flux in an inner iteration */
    double *cosines[AXES];     /* [angles] */
    double *h[AXES], weight;   /* [angles]: 2 * cosine / width */
    double *harmonics;         /* [OCTANTS][moments][angles] */
    double *total;             /* [groups][MATERIALS]: cross sections */
    double *scatter;           /* [groups to][groups from][MATERIALS][moments] */
    double *speed;             /* [groups] */
};

/* The part of the box of one rank, or of a team of workers that share its arrays. Between two
 * barriers a worker writes only the data of its own groups. */
struct part {
    int parts[DIRECTIONS], at[DIRECTIONS];   /* the decomposition, and the index of this part */
    int first[DIRECTIONS], size[DIRECTIONS]; /* its cells in y and z; in x it has all */
    size_t cells;
    double *flux;    /* [groups][cells][moments] */
    double *before;  /* [groups][cells]: the flux before the inner iteration */
    double *earlier; /* the same before the outer one */
    double *fixed;   /* [groups][cells][moments]: the source from outside and other groups */
    double *source;  /* the same with what scatters within the group */
    double *inverse; /* [groups][cells][angles]: of the factor of the flux in a cell's balance */
    double *outflow; /* [groups][cells]: what leaves a cell through all faces, less what enters */
    double *known;   /* [groups][OCTANTS][cells][angles]: the source of the known solution */
    double *edge;    /* the same: the flux at the beginning of the time step */
    double *largest; /* [2][groups]: values to compare between parts, double-buffered */
};

struct worker;
/* The only difference between the forms once their workers run. */
typedef void
barrier_call(struct worker *worker); /* of the workers of a part: waits, orders memory */

struct worker {
    const struct problem *problem;
    struct part *part;
    barrier_call *barrier;
    void *team;
    MPI_Comm comm;             /* the same worker of all parts, ranked by part */
    int tag;                   /* of this worker's messages */
    int number, count;         /* among the workers of the part */
    int *groups, own;          /* the groups assigned to it now, and their number */
    char *is_done;             /* [groups]: their inner iterations have converged */
    unsigned comparisons;      /* so far: selects the half of `largest` */
    long sweeps;               /* of groups, by all workers of a part */
    double *emission, *centre; /* [angles], in a cell: source and flux */
    double *x_faces;           /* [nz][ny][angles] */
    double *faces[DIRECTIONS]; /* of one chunk: [nz or ny][chunk][angles] */
    double *sent[DIRECTIONS][2];
    MPI_Request requests[DIRECTIONS][2];
    int buffer;
};

static inline int min_int(int a, int b)
{
    return a < b ? a : b;
}

static inline int is_backward(int octant, int axis)
{
    return octant >> axis & 1;
}

static inline double middle_of_step(const struct problem *problem, int step)
{
    return problem->step * (step + 0.5);
}

/* The factor of the flux difference between a time step's middle and its beginning. */
static inline double edge_factor(const struct problem *problem, int group)
{
    return problem->steps ? 2 / (problem->speed[group] * problem->step) : 0;
}

/* ---- problem.c ---- */
/* Parses NAME=VALUE words; ends the program on a wrong one. */
void read_options(struct problem *problem, char **words);
void problem_set_up(struct problem *problem);
/* True if the cell is in the central cube of half the box's length. */
int is_inside(const struct problem *problem, const int cell[AXES]);
/* The cosine in the direction of an axis, with its sign. */
double signed_cosine(const struct problem *problem, int octant, int axis, int angle);

/* ---- part.c ---- */
void part_decompose(struct part *part, const struct problem *problem, int ranks, int rank);
/* Obtains all arrays of the part from `make`, which creates them zeroed or finds them. */
void part_arrays(struct part *part, const struct problem *problem,
                 double *make(void *context, const char *name, size_t count), void *context);
void worker_set_up(struct worker *worker);
double *zeros(size_t count);
/* The position in the box of the part's cell number `at`, and its material. */
void cell_at(const struct worker *worker, size_t at, int cell[AXES]);
int material_at(const struct worker *worker, size_t at);
/* The external source of a group plus scattering from all other groups. */
void fixed_source(const struct worker *worker, int group);
/* The same plus scattering within the group. */
void total_source(const struct worker *worker, int group);

/* ---- known.c ---- */
/* The source of the known solution in one group, at a time. */
void known_source(const struct worker *worker, int group, double time);
/* The largest difference between flux and known flux in a group, in the last time step's middle. */
double known_error(const struct worker *worker, int group);

/* ---- kernel.c ---- */
/* Sweeps the worker's groups in all octants; at the end of a time step advances `edge`. */
void sweep(struct worker *worker, int is_end_of_step);

/* ---- solve.c ---- */
void solve(struct worker *worker);
/* The largest imbalance of flux, source and flows of the last sweep in a group's cells. Only for
 * sources without a known solution, which are isotropic. */
double imbalance(const struct worker *worker, int group);
/* The maximum over all groups and parts of value(), which each worker calls for its groups. */
double largest_of_all(struct worker *worker, double value(const struct worker *, int group));

/* ---- forms.c ---- */
/* Starts the workers of this rank, each of which calls `work`; ends the program on failure. */
void run_form(const char *name, int workers, const struct problem *problem,
              void (*work)(struct worker *worker));
void fail(const char *what);

#endif
