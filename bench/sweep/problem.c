/* bench/sweep/problem.c: materials, cross sections and speeds.
 *
 * The values follow the description of SNAP's library: most scattering is within the group and to
 * lower energies, and each higher order is weaker; group 0 is the fastest. */
#include "sweep.h"

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

void problem_set_up(struct problem *p)
{
    p->moments = p->orders * p->orders;
    set_angles(p);
    set_cross_sections(p);
}

int is_inside(const struct problem *p, const int cell[AXES])
{
    return 4 * cell[0] >= p->nx && 4 * cell[0] < 3 * p->nx && 4 * cell[1] >= p->ny &&
           4 * cell[1] < 3 * p->ny && 4 * cell[2] >= p->nz && 4 * cell[2] < 3 * p->nz;
}
