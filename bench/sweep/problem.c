/* bench/sweep/problem.c: the problem: its options, materials and directions.
 *
 * Cross sections follow the description of SNAP's library: most scattering is within the group and
 * to lower energies, and each higher order is weaker; group 0 is the fastest. Real harmonics are
 * normalised such that the sum of Y(a) * Y(b) over those of order l is the Legendre polynomial P_l
 * of the cosine between a and b. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"

/* ---- Materials, cross sections and speeds ---- */

static const struct {
    double total, scattered;     /* of group 0 */
    double within, down, up;     /* shares of the scattering; shares without a group stay within */
    double first_order, further; /* of order 1 as a share of order 0; of each further one */
} materials[MATERIALS] = {{1, 0.5, 0.2, 0.7, 0.1, 0.1, 0.5}, {2, 1.2, 0.5, 0.4, 0.1, 0.8, 0.6}};

static double share_of(const struct problem *p, int material, int to, int from)
{
    int below = p->groups - 1 - from, above = from;
    if (to > from)
        return materials[material].down / below;
    if (to < from)
        return materials[material].up / above;
    return materials[material].within + (below ? 0 : materials[material].down) +
           (above ? 0 : materials[material].up);
}

static void set_scattering(struct problem *p, int to, int from, int material)
{
    double *into =
        p->scatter + (size_t)((to * p->groups + from) * MATERIALS + material) * (size_t)p->moments;
    double value = (materials[material].scattered + 0.005 * from) * share_of(p, material, to, from);
    for (int l = 0; l < p->orders; l++) {
        if (l > 0)
            value *= l == 1 ? materials[material].first_order : materials[material].further;
        for (int k = -l; k <= l; k++)
            *into++ = (2 * l + 1) * value;
    }
}

static void set_cross_sections(struct problem *p)
{
    size_t pairs = (size_t)p->groups * (size_t)p->groups;
    p->total = zeros((size_t)p->groups * MATERIALS);
    p->speed = zeros((size_t)p->groups);
    p->scatter = zeros(pairs * MATERIALS * (size_t)p->moments);
    for (int g = 0; g < p->groups; g++) {
        p->speed[g] = p->groups - g;
        for (int material = 0; material < MATERIALS; material++) {
            p->total[g * MATERIALS + material] = materials[material].total + 0.01 * g;
            for (int to = 0; to < p->groups; to++)
                set_scattering(p, to, g, material);
        }
    }
}

int is_inside(const struct problem *p, const int cell[AXES])
{
    return 4 * cell[0] >= p->nx && 4 * cell[0] < 3 * p->nx && 4 * cell[1] >= p->ny &&
           4 * cell[1] < 3 * p->ny && 4 * cell[2] >= p->nz && 4 * cell[2] < 3 * p->nz;
}

/* ---- Directions, their weights and spherical harmonics ---- */

static const double PI = 3.14159265358979323846;

double signed_cosine(const struct problem *p, int octant, int axis, int angle)
{
    return is_backward(octant, axis) ? -p->cosines[axis][angle] : p->cosines[axis][angle];
}

/* The associated Legendre function of order l and degree k, without the sign (-1)^k. */
static double legendre(int l, int k, double x)
{
    double before = 0, now = 1, root = sqrt(1 - x * x);
    for (int i = 1; i <= k; i++)
        now *= (2 * i - 1) * root;
    for (int i = k + 1; i <= l; i++) {
        double next = ((2 * i - 1) * x * now - (i + k - 1) * before) / (i - k);
        before = now;
        now = next;
    }
    return now;
}

static double harmonic(int l, int k, double x, double around)
{
    int degree = k < 0 ? -k : k;
    double norm = degree ? 2 : 1;
    for (int i = l - degree + 1; i <= l + degree; i++)
        norm /= i;
    return sqrt(norm) * legendre(l, degree, x) *
           (k < 0 ? sin(degree * around) : cos(degree * around));
}

static void set_harmonics(struct problem *p)
{
    double *into = p->harmonics = zeros((size_t)OCTANTS * (size_t)p->moments * (size_t)p->angles);
    for (int octant = 0; octant < OCTANTS; octant++)
        for (int l = 0; l < p->orders; l++)
            for (int k = -l; k <= l; k++)
                for (int m = 0; m < p->angles; m++)
                    *into++ = harmonic(
                        l, k, signed_cosine(p, octant, 0, m),
                        atan2(signed_cosine(p, octant, 2, m), signed_cosine(p, octant, 1, m)));
}

/* Points of an octant: the first cosine in even steps, the angle around its axis by the golden
 * ratio. */
static void set_angles(struct problem *p)
{
    for (int axis = 0; axis < AXES; axis++) {
        p->cosines[axis] = zeros((size_t)p->angles);
        p->h[axis] = zeros((size_t)p->angles);
    }
    for (int m = 0; m < p->angles; m++) {
        double first = (m + 0.5) / p->angles, rest = sqrt(1 - first * first);
        double around = PI / 2 * fmod((m + 0.5) * 0.6180339887498949, 1);
        double cosines[AXES] = {first, rest * cos(around), rest * sin(around)};
        for (int axis = 0; axis < AXES; axis++) {
            p->cosines[axis][m] = cosines[axis];
            p->h[axis][m] = 2 * cosines[axis] / p->width;
        }
    }
    p->weight = 1.0 / (OCTANTS * p->angles);
    set_harmonics(p);
}

void problem_set_up(struct problem *p)
{
    p->moments = p->orders * p->orders;
    set_angles(p);
    set_cross_sections(p);
}

/* ---- Options ---- */

void read_options(struct problem *p, char **words)
{
    const struct {
        const char *name, *format;
        void *value;
    } options[] = {
        {"nx=", "%d%n", &p->nx},          {"ny=", "%d%n", &p->ny},
        {"nz=", "%d%n", &p->nz},          {"angles=", "%d%n", &p->angles},
        {"groups=", "%d%n", &p->groups},  {"orders=", "%d%n", &p->orders},
        {"chunk=", "%d%n", &p->chunk},    {"steps=", "%d%n", &p->steps},
        {"inners=", "%d%n", &p->inners},  {"outers=", "%d%n", &p->outers},
        {"known=", "%d%n", &p->is_known}, {"width=", "%lf%n", &p->width},
        {"step=", "%lf%n", &p->step},     {"tolerance=", "%lf%n", &p->tolerance},
    };
    for (; *words; words++) {
        size_t i = 0, count = sizeof(options) / sizeof(options[0]);
        while (i < count && strncmp(*words, options[i].name, strlen(options[i].name)) != 0)
            i++;
        const char *text = i < count ? *words + strlen(options[i].name) : "";
        int length = 0;
        if (!*text || sscanf(text, options[i].format, options[i].value, &length) != 1 ||
            text[length])
            fail("words are NAME=NUMBER, with the names that bench/sweep/sweep.c lists");
    }
    if (p->nx < 1 || p->ny < 1 || p->nz < 1 || p->angles < 1 || p->groups < 1 || p->orders < 1 ||
        p->chunk < 1 || p->steps < 0)
        fail("sizes must be 1 or more");
    if (!(p->width > 0) || !(p->step > 0))
        fail("width and step must be greater than 0");
}
