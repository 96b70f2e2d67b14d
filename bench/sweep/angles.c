/* bench/sweep/angles.c: directions, their weights and spherical harmonics.
 *
 * Real harmonics, normalised such that the sum of Y(a) * Y(b) over those of order l is the Legendre
 * polynomial P_l of the cosine between a and b. */
#include <math.h>

#include "sweep.h"

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
void set_angles(struct problem *p)
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
