/* bench/sweep/pipeline.c: the order of a sweep, and the messages between parts.
 *
 * All parts process corners, groups and chunks in the same order. Octants that differ only in x are
 * adjacent in it, so that the pipeline between the parts fills four times, not eight. Outflows are
 * copied to one of two alternating send buffers, so that a message can still be in flight while the
 * next chunk is computed. */
#include <string.h>

#include "sweep.h"

static int face_count(const struct worker *worker, int direction)
{
    return worker->part->size[!direction] * worker->problem->chunk * worker->problem->angles;
}

/* The rank of the neighbouring part, downstream or upstream; -1 at the boundary. */
static int neighbour(const struct worker *worker, int octant, int direction, int is_down)
{
    const struct part *part = worker->part;
    int step = is_backward(octant, direction + 1) == is_down ? -1 : 1;
    int at[DIRECTIONS] = {part->at[Y], part->at[Z]};
    at[direction] += step;
    if (at[direction] < 0 || at[direction] >= part->parts[direction])
        return -1;
    return at[Z] * part->parts[Y] + at[Y];
}

static void receive_faces(struct worker *worker, int octant)
{
    for (int d = 0; d < DIRECTIONS; d++) {
        int from = neighbour(worker, octant, d, 0), count = face_count(worker, d);
        if (from < 0)
            memset(worker->faces[d], 0, (size_t)count * sizeof(double));
        else
            MPI_Recv(worker->faces[d], count, MPI_DOUBLE, from, worker->tag + d, worker->comm,
                     MPI_STATUS_IGNORE);
    }
}

static void send_faces(struct worker *worker, int octant)
{
    int buffer = worker->buffer++ % 2;
    for (int d = 0; d < DIRECTIONS; d++) {
        int to = neighbour(worker, octant, d, 1), count = face_count(worker, d);
        if (to < 0)
            continue;
        MPI_Wait(&worker->requests[d][buffer], MPI_STATUS_IGNORE);
        memcpy(worker->sent[d][buffer], worker->faces[d], (size_t)count * sizeof(double));
        MPI_Isend(worker->sent[d][buffer], count, MPI_DOUBLE, to, worker->tag + d, worker->comm,
                  &worker->requests[d][buffer]);
    }
}

static void sweep_octant(struct worker *worker, int octant, int group, int is_end_of_step)
{
    const struct problem *problem = worker->problem;
    const struct part *part = worker->part;
    size_t face = (size_t)part->size[Y] * (size_t)part->size[Z] * (size_t)problem->angles;
    int chunks = (problem->nx + problem->chunk - 1) / problem->chunk;
    memset(worker->x_faces, 0, face * sizeof(double)); /* vacuum */
    for (int c = 0; c < chunks; c++) {
        int first = (is_backward(octant, 0) ? chunks - 1 - c : c) * problem->chunk;
        int size = min_int(problem->chunk, problem->nx - first);
        struct chunk chunk = {octant, group, first, size, is_end_of_step};
        receive_faces(worker, octant);
        sweep_chunk(worker, &chunk);
        send_faces(worker, octant);
    }
}

void sweep(struct worker *worker, int is_end_of_step)
{
    /* Consecutive corners share an edge, where the pipeline changes direction. */
    static const int corners[] = {0, 1, 3, 2};
    for (int corner = 0; corner < 4; corner++)
        for (int i = 0; i < worker->own; i++)
            for (int x = 0; x < 2; x++)
                sweep_octant(worker, corners[corner] << 1 | x, worker->groups[i], is_end_of_step);
    for (int i = 0; i < DIRECTIONS * 2; i++)
        MPI_Wait(&worker->requests[i / 2][i % 2], MPI_STATUS_IGNORE);
}
