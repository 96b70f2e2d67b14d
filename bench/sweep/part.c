/* bench/sweep/part.c: decomposes the box in y and z; the arrays of a part and of a worker; the
 * sources, as moments in the part's cells.
 *
 * The source in direction a is the sum over moments of source * harmonic(a), with a factor of
 * 2 l + 1 for scattering of order l. */
#include <stdlib.h>
#include <string.h>

#include "sweep.h"

static void share(int all, int count, int number, int *first, int *size)
{
    int each = all / count, more = all % count;
    *first = each * number + min_int(number, more);
    *size = each + (number < more);
}

/* As square as possible, with at least as many parts in y as in z. */
void part_decompose(struct part *part, const struct problem *problem, int ranks, int rank)
{
    const int cells[DIRECTIONS] = {problem->ny, problem->nz};
    int z = 1;
    for (int i = 1; i * i <= ranks; i++)
        if (ranks % i == 0)
            z = i;
    part->parts[Y] = ranks / z;
    part->parts[Z] = z;
    part->at[Y] = rank % part->parts[Y];
    part->at[Z] = rank / part->parts[Y];
    for (int d = 0; d < DIRECTIONS; d++)
        share(cells[d], part->parts[d], part->at[d], &part->first[d], &part->size[d]);
    if (part->parts[Y] > problem->ny || part->parts[Z] > problem->nz)
        fail("more ranks than cells in y or z");
    part->cells = (size_t)problem->nx * (size_t)part->size[Y] * (size_t)part->size[Z];
}

double *zeros(size_t count)
{
    double *memory = calloc(count, sizeof(double));
    if (!memory)
        fail("no memory");
    return memory;
}

void part_arrays(struct part *part, const struct problem *p,
                 double *make(void *context, const char *name, size_t count), void *context)
{
    const size_t groups = (size_t)p->groups, cells = groups * part->cells;
    const size_t moments = cells * (size_t)p->moments, angles = cells * (size_t)p->angles;
    struct {
        const char *name;
        double **array;
        size_t count;
    } arrays[] = {
        {"flux", &part->flux, moments},
        {"before", &part->before, cells},
        {"earlier", &part->earlier, cells},
        {"fixed", &part->fixed, moments},
        {"source", &part->source, moments},
        {"inverse", &part->inverse, angles},
        {"outflow", &part->outflow, cells},
        {"known", &part->known, p->is_known ? angles * OCTANTS : 0},
        {"edge", &part->edge, angles * OCTANTS},
        {"largest", &part->largest, 2 * groups},
    };
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        *arrays[i].array = arrays[i].count ? make(context, arrays[i].name, arrays[i].count) : NULL;
}

void worker_set_up(struct worker *worker)
{
    const struct problem *problem = worker->problem;
    const struct part *part = worker->part;
    worker->groups = calloc((size_t)problem->groups, sizeof(int));
    worker->is_done = calloc((size_t)problem->groups, 1);
    if (!worker->groups || !worker->is_done)
        fail("no memory");
    worker->emission = zeros((size_t)problem->angles);
    worker->centre = zeros((size_t)problem->angles);
    worker->x_faces =
        zeros((size_t)part->size[Y] * (size_t)part->size[Z] * (size_t)problem->angles);
    for (int d = 0; d < DIRECTIONS; d++) {
        /* A face in y extends in z and vice versa. */
        size_t face = (size_t)part->size[!d] * (size_t)problem->chunk * (size_t)problem->angles;
        worker->faces[d] = zeros(face);
        for (int i = 0; i < 2; i++) {
            worker->sent[d][i] = zeros(face);
            worker->requests[d][i] = MPI_REQUEST_NULL;
        }
    }
}

void cell_at(const struct worker *worker, size_t at, int cell[AXES])
{
    const struct part *part = worker->part;
    size_t nx = (size_t)worker->problem->nx, ny = (size_t)part->size[Y];
    cell[0] = (int)(at % nx);
    cell[1] = (int)(at / nx % ny) + part->first[Y];
    cell[2] = (int)(at / nx / ny) + part->first[Z];
}

int material_at(const struct worker *worker, size_t at)
{
    int cell[AXES];
    cell_at(worker, at, cell);
    return is_inside(worker->problem, cell);
}

/* ---- Sources ---- */

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
