/* bench/sweep/kernel.c: a sweep: the cells of a chunk, one after another, all angles of an octant
 * at once; and the messages between parts.
 *
 * Diamond differences: the flux at a cell's centre is the mean of those on opposite faces, and at
 * the middle of a time step the mean of those at its two ends, its edges. The balance of a cell
 * then gives the centre from the three inflows and the early edge, and from these the outflows,
 * which replace the inflows.
 *
 * All parts process corners, groups and chunks in the same order. Octants that differ only in x are
 * adjacent in it, so that the pipeline between the parts fills four times, not eight. Outflows are
 * copied to one of two alternating send buffers, so that a message can still be in flight while the
 * next chunk is computed. */
#include <string.h>

#include "sweep.h"

struct chunk {
    int octant, group, first, size; /* cells in x */
    int is_end_of_step;
};

/* Vectors of angles but for source and flux, vectors of moments. */
struct cell {
    const struct problem *problem;
    const double *restrict harmonics, *restrict source, *restrict known, *restrict inverse;
    double *restrict x, *restrict y, *restrict z, *restrict edge;
    double *restrict emission, *restrict centre, *restrict flux, *outflow;
    double total, edge_factor;
    int is_end_of_step;
};

static void emit(const struct cell *c)
{
    const size_t n = (size_t)c->problem->angles, moments = (size_t)c->problem->moments;
    double *restrict emission = c->emission;
    const double even = c->source[0];
    for (size_t m = 0; m < n; m++)
        emission[m] = even + (c->known ? c->known[m] : 0);
    for (size_t l = 1; l < moments; l++) {
        const double *restrict harmonic = c->harmonics + l * n, source = c->source[l];
        for (size_t m = 0; m < n; m++)
            emission[m] += source * harmonic[m];
    }
}

static void flow(const struct cell *c)
{
    const int n = c->problem->angles;
    const double *restrict hx = c->problem->h[0], *restrict hy = c->problem->h[1],
                           *restrict hz = c->problem->h[2], ht = c->edge_factor;
    const double *restrict emission = c->emission, *restrict inverse = c->inverse;
    double *restrict x = c->x, *restrict y = c->y, *restrict z = c->z, *restrict edge = c->edge;
    double *restrict centre = c->centre, leaves = 0;
#pragma omp simd
    for (int m = 0; m < n; m++) {
        double gains = emission[m] + hx[m] * x[m] + hy[m] * y[m] + hz[m] * z[m];
        centre[m] = (gains + ht * edge[m]) * inverse[m];
    }
#pragma omp simd reduction(+ : leaves)
    for (int m = 0; m < n; m++) {
        double out[] = {2 * centre[m] - x[m], 2 * centre[m] - y[m], 2 * centre[m] - z[m]};
        leaves += hx[m] * (out[0] - x[m]) + hy[m] * (out[1] - y[m]) + hz[m] * (out[2] - z[m]) +
                  2 * ht * (centre[m] - edge[m]);
        x[m] = out[0];
        y[m] = out[1];
        z[m] = out[2];
    }
    *c->outflow += leaves * c->problem->weight / 2;
    if (c->is_end_of_step)
        for (int m = 0; m < n; m++)
            edge[m] = 2 * centre[m] - edge[m];
}

static void add_moments(const struct cell *c)
{
    const size_t n = (size_t)c->problem->angles, moments = (size_t)c->problem->moments;
    const double *restrict centre = c->centre;
    for (size_t l = 0; l < moments; l++) {
        const double *restrict harmonic = c->harmonics + l * n;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t m = 0; m < n; m++)
            sum += harmonic[m] * centre[m];
        c->flux[l] += sum * c->problem->weight;
    }
}

static void sweep_cell(const struct cell *c)
{
    emit(c);
    flow(c);
    add_moments(c);
}

static int directed_index(int at, int size, int backward)
{
    return backward ? size - 1 - at : at;
}

static void sweep_chunk(struct worker *worker, const struct chunk *chunk)
{
    const struct problem *p = worker->problem;
    const struct part *part = worker->part;
    const int ny = part->size[Y], nz = part->size[Z], o = chunk->octant;
    const size_t n = (size_t)p->angles, moments = (size_t)p->moments;
    const size_t of_group = (size_t)chunk->group * part->cells;
    const size_t of_octant = (size_t)(chunk->group * OCTANTS + o) * part->cells;
    struct cell cell = {.problem = p,
                        .harmonics = p->harmonics + (size_t)o * moments * n,
                        .emission = worker->emission,
                        .centre = worker->centre,
                        .edge_factor = edge_factor(p, chunk->group),
                        .is_end_of_step = chunk->is_end_of_step};
    for (int kk = 0; kk < nz; kk++) {
        const int k = directed_index(kk, nz, is_backward(o, 2));
        for (int jj = 0; jj < ny; jj++) {
            const int j = directed_index(jj, ny, is_backward(o, 1));
            const size_t row = (size_t)k * (size_t)ny + (size_t)j;
            cell.x = worker->x_faces + row * n;
            for (int ii = 0; ii < chunk->size; ii++) {
                const int i = directed_index(ii, chunk->size, is_backward(o, 0)),
                          x = chunk->first + i;
                const size_t at = row * (size_t)p->nx + (size_t)x, place = of_group + at;
                const int where[AXES] = {x, part->first[Y] + j, part->first[Z] + k};
                cell.y = worker->faces[Y] + ((size_t)k * (size_t)p->chunk + (size_t)i) * n;
                cell.z = worker->faces[Z] + ((size_t)j * (size_t)p->chunk + (size_t)i) * n;
                cell.source = part->source + place * moments;
                cell.flux = part->flux + place * moments;
                cell.inverse = part->inverse + place * n;
                cell.outflow = part->outflow + place;
                cell.known = part->known ? part->known + (of_octant + at) * n : NULL;
                cell.edge = part->edge + (of_octant + at) * n;
                cell.total = p->total[chunk->group * MATERIALS + is_inside(p, where)];
                sweep_cell(&cell);
            }
        }
    }
}

/* ---- The pipeline of chunks ---- */

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
