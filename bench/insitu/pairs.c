/* bench/insitu/pairs.c: an analysis of a molecular dynamics simulation: finds the pairs of atoms
 * that are close enough to count as bonded. After the paper's section 7.4.
 *
 *   pairs onespace NAME DISTANCE [CPUS]         a channel of the space that it runs in
 *   pairs buffer NAME DISTANCE ATOMS [CPUS]       shared memory (shared_buffer.h)
 *
 * A step of the channel is searched in place; one of the buffer is first copied into private
 * arrays, as in the paper. The search uses OpenMP. At the end it prints "pairs STEPS SUM": the sum
 * of (tags' product mod 65521) over all pairs of the first CHECKED_STEPS steps, which shows that
 * they arrived complete. */
#include <errno.h>
#include <onespace/insitu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared_buffer.h"

struct atoms {
    int64_t count;
    const double *x; /* 3 per atom */
    const int32_t *tag;
    double low[3], high[3];
};

static void fail(const char *what, int error)
{
    fprintf(stderr, "pairs: %s: %s: %s\n", what, strerror(error), onespace_insitu_message());
    exit(1);
}

/* ---- The search: atoms binned into cells at least as wide as the distance ---- */

struct cells {
    int64_t n[3], total, room_cells, room_atoms;
    int64_t *first; /* total + 1: where each cell's atoms begin */
    int64_t *cell;  /* of each atom, in input order */
    double *sorted; /* 3 per atom, within the box */
    int32_t *tag;
};

static void *resized(void *old, int64_t count, size_t size)
{
    void *memory = realloc(old, (size_t)count * size);
    if (!memory)
        fail("memory", ENOMEM);
    return memory;
}

static void choose_cells(const struct atoms *atoms, struct cells *cells, double distance)
{
    cells->total = 1;
    for (int d = 0; d < 3; d++) {
        cells->n[d] = (int64_t)((atoms->high[d] - atoms->low[d]) / distance);
        cells->n[d] = cells->n[d] < 3 ? 3 : cells->n[d];
        cells->total *= cells->n[d];
    }
    if (cells->total > cells->room_cells) {
        cells->room_cells = cells->total;
        cells->first = resized(cells->first, cells->total + 2, sizeof(int64_t));
    }
    if (atoms->count > cells->room_atoms) {
        cells->room_atoms = atoms->count;
        cells->cell = resized(cells->cell, atoms->count, sizeof(int64_t));
        cells->sorted = resized(cells->sorted, atoms->count, 3 * sizeof(double));
        cells->tag = resized(cells->tag, atoms->count, sizeof(int32_t));
    }
}

/* Wraps a coordinate into the box; atoms can be slightly outside. */
static double wrapped(const struct atoms *atoms, int64_t i, int d)
{
    double size = atoms->high[d] - atoms->low[d], x = atoms->x[3 * i + d] - atoms->low[d];
    return x < 0 ? x + size : x >= size ? x - size : x;
}

static int64_t cell_of(const struct atoms *atoms, const struct cells *cells, int64_t i)
{
    int64_t cell = 0;
    for (int d = 2; d >= 0; d--) {
        double part = wrapped(atoms, i, d) / (atoms->high[d] - atoms->low[d]);
        int64_t at = (int64_t)(part * (double)cells->n[d]);
        cell = cell * cells->n[d] + (at < cells->n[d] ? at : cells->n[d] - 1);
    }
    return cell;
}

static void sort_into_cells(const struct atoms *atoms, struct cells *cells)
{
    int64_t *first = cells->first; /* shifted by one during the counting sort */
    memset(first, 0, (size_t)(cells->total + 2) * sizeof(*first));
    for (int64_t i = 0; i < atoms->count; i++)
        first[(cells->cell[i] = cell_of(atoms, cells, i)) + 2]++;
    for (int64_t c = 2; c < cells->total + 2; c++)
        first[c] += first[c - 1];
    for (int64_t i = 0; i < atoms->count; i++) {
        int64_t to = first[cells->cell[i] + 1]++;
        for (int d = 0; d < 3; d++)
            cells->sorted[3 * to + d] = wrapped(atoms, i, d);
        cells->tag[to] = atoms->tag[i];
    }
}

/* Pairs of an atom with the atoms [from, end), whose cell is shifted by a period of the box. */
static uint64_t pairs_with(const struct cells *cells, int64_t i, int64_t from, int64_t end,
                           const double *shift, double distance)
{
    uint64_t found = 0;
    double x = cells->sorted[3 * i] - shift[0], y = cells->sorted[3 * i + 1] - shift[1],
           z = cells->sorted[3 * i + 2] - shift[2];
    for (int64_t j = from; j < end; j++) {
        double a = cells->sorted[3 * j] - x, b = cells->sorted[3 * j + 1] - y,
               c = cells->sorted[3 * j + 2] - z;
        uint64_t is_close = a * a + b * b + c * c < distance * distance;
        found += is_close * ((uint64_t)cells->tag[i] * (uint64_t)cells->tag[j] % 65521);
    }
    return found;
}

/* Pairs within a cell, and with the half of its neighbours that follows it. */
static uint64_t pairs_of_cell(const struct atoms *atoms, const struct cells *cells, int64_t cell,
                              double distance)
{
    const int64_t *first = cells->first;
    const int64_t at[3] = {cell % cells->n[0], cell / cells->n[0] % cells->n[1],
                           cell / cells->n[0] / cells->n[1]};
    uint64_t sum = 0;
    for (int k = 13; k < 27; k++) { /* 13 is the cell itself */
        const int step[3] = {k % 3 - 1, k / 3 % 3 - 1, k / 9 - 1};
        double shift[3] = {0, 0, 0};
        int64_t other = 0;
        for (int d = 2; d >= 0; d--) {
            int64_t next = at[d] + step[d], n = cells->n[d];
            shift[d] = (double)((next >= n) - (next < 0)) * (atoms->high[d] - atoms->low[d]);
            other = other * n + (next + n) % n;
        }
        for (int64_t i = first[cell]; i < first[cell + 1]; i++)
            sum += pairs_with(cells, i, k == 13 ? i + 1 : first[other], first[other + 1], shift,
                              distance);
    }
    return sum;
}

static uint64_t search(const struct atoms *atoms, double distance)
{
    static struct cells cells;
    uint64_t sum = 0;
    choose_cells(atoms, &cells, distance);
    sort_into_cells(atoms, &cells);
#pragma omp parallel for reduction(+ : sum) schedule(static)
    for (int64_t cell = 0; cell < cells.total; cell++)
        sum += pairs_of_cell(atoms, &cells, cell, distance);
    return sum;
}

/* ---- Sources of steps: each returns 1 and the step, or 0 at the end ---- */

static int get_from_channel(struct onespace_insitu *channel, struct onespace_insitu_step *step,
                            struct atoms *atoms)
{
    struct onespace_insitu_array x = {0}, tag = {0}, box = {0};
    int result = onespace_insitu_take(channel, step, -1);
    if (result == -ENODATA)
        return 0;
    if (result == 0)
        result = onespace_insitu_get(channel, step, 0, "coordsets/coords/values",
                                     ONESPACE_INSITU_FLOAT64, &x);
    if (result == 0)
        result =
            onespace_insitu_get(channel, step, 0, "fields/tag/values", ONESPACE_INSITU_INT32, &tag);
    if (result == 0)
        result = onespace_insitu_get(channel, step, 0, "box", ONESPACE_INSITU_FLOAT64, &box);
    if (result < 0)
        fail("take", -result);
    *atoms = (struct atoms){.count = (int64_t)x.shape[0], .x = x.address, .tag = tag.address};
    memcpy(atoms->low, box.address, sizeof(atoms->low));
    memcpy(atoms->high, (const double *)box.address + 3, sizeof(atoms->high));
    return 1;
}

static int get_from_buffer(struct shared_buffer *buffer, struct atoms *atoms)
{
    static double *x;
    static int32_t *tag;
    while (sem_wait(&buffer->is_full) != 0)
        ;
    if (buffer->ended)
        return 0;
    if (atoms->count < buffer->atoms) {
        x = resized(x, buffer->atoms, 3 * sizeof(*x));
        tag = resized(tag, buffer->atoms, sizeof(*tag));
    }
    *atoms = (struct atoms){.count = buffer->atoms, .x = x, .tag = tag};
    memcpy(x, buffer->positions, (size_t)buffer->atoms * 3 * sizeof(*x));
    memcpy(tag, buffer_tags(buffer), (size_t)buffer->atoms * sizeof(*tag));
    memcpy(atoms->low, buffer->low, sizeof(buffer->low));
    memcpy(atoms->high, buffer->high, sizeof(buffer->high));
    sem_post(&buffer->is_free);
    return 1;
}

int main(int argc, char **argv)
{
    static struct atoms atoms;
    struct onespace_insitu *channel = NULL;
    struct onespace_insitu_step step;
    struct shared_buffer *buffer = NULL;
    uint64_t steps = 0, sum = 0;
    int uses_buffer = argc == 5 && strcmp(argv[1], "buffer") == 0;
    if (!uses_buffer && (argc != 4 || strcmp(argv[1], "onespace") != 0)) {
        fprintf(stderr, "usage: pairs onespace NAME DISTANCE | pairs buffer NAME DISTANCE ATOMS\n");
        return 2;
    }
    double distance = strtod(argv[3], NULL);
    if (uses_buffer && !(buffer = buffer_map(argv[2], atoll(argv[4]), 0)))
        fail(argv[2], errno);
    if (uses_buffer)
        buffer->is_mapped = 1;
    if (!uses_buffer) {
        int result = onespace_insitu_open(argv[2], ONESPACE_INSITU_EVERY, 20000, &channel);
        if (result < 0)
            fail(argv[2], -result);
    }
    while (buffer ? get_from_buffer(buffer, &atoms) : get_from_channel(channel, &step, &atoms)) {
        uint64_t found = search(&atoms, distance);
        sum += steps++ < CHECKED_STEPS ? found : 0;
        if (channel && onespace_insitu_release(channel, &step) < 0)
            fail("release", EINVAL);
    }
    printf("pairs %llu %llu\n", (unsigned long long)steps, (unsigned long long)sum);
    return channel ? onespace_insitu_close(channel, 0) : 0;
}
