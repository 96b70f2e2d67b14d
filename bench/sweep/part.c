/* bench/sweep/part.c: cutting the cube in y and z, and the groups among the workers of a part. */
#include <stdlib.h>

#include "sweep.h"

static void share(int all, int count, int number, int *first, int *size)
{
    int each = all / count, more = all % count;
    *first = each * number + min_int(number, more);
    *size = each + (number < more);
}

/* As square as it goes; y is cut no less than z. */
void part_cut(struct part *part, const struct problem *problem, int ranks, int rank)
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

size_t part_bytes(const struct part *part, const struct problem *problem)
{
    return part->cells * (size_t)problem->groups * sizeof(double);
}

static double *zeros(size_t count)
{
    double *memory = calloc(count, sizeof(double));
    if (!memory)
        fail("no memory");
    return memory;
}

void worker_set_up(struct worker *worker)
{
    const struct problem *problem = worker->problem;
    const struct part *part = worker->part;
    int count;
    share(problem->groups, worker->count, worker->number, &worker->groups[0], &count);
    worker->groups[1] = worker->groups[0] + count;
    worker->x_faces = zeros((size_t)count * (size_t)part->size[Y] * (size_t)part->size[Z] *
                            (size_t)problem->angles);
    for (int d = 0; d < DIRECTIONS; d++) {
        /* A face in y is wide in z, and the other way round. */
        size_t face = (size_t)part->size[!d] * (size_t)problem->chunk * (size_t)problem->angles;
        worker->faces[d] = zeros(face);
        for (int i = 0; i < 2; i++) {
            worker->sent[d][i] = zeros(face);
            worker->requests[d][i] = MPI_REQUEST_NULL;
        }
    }
}
