/* bench/sweep/options.c: parses the problem from NAME=VALUE words. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"

static void reject(const char *word, const char *why)
{
    char message[200];
    snprintf(message, sizeof(message), "%s: %s (bench/sweep/sweep.c lists the words)", word, why);
    fail(message);
}

static double value_of(const char *word, const char *text, double least)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end || errno)
        reject(word, "no number");
    if (!(value >= least) || value > 1e9)
        reject(word, "out of range");
    return value;
}

void read_options(struct problem *p, char **words)
{
    const struct {
        const char *name;
        int *whole, least;
        double *real;
    } options[] = {
        {"nx", &p->nx, 1, NULL},
        {"ny", &p->ny, 1, NULL},
        {"nz", &p->nz, 1, NULL},
        {"angles", &p->angles, 1, NULL},
        {"groups", &p->groups, 1, NULL},
        {"orders", &p->orders, 1, NULL},
        {"chunk", &p->chunk, 1, NULL},
        {"steps", &p->steps, 0, NULL},
        {"inners", &p->inners, 1, NULL},
        {"outers", &p->outers, 1, NULL},
        {"fixup", &p->has_fixup, 0, NULL},
        {"known", &p->is_known, 0, NULL},
        {"width", NULL, 0, &p->width},
        {"step", NULL, 0, &p->step},
        {"tolerance", NULL, 0, &p->tolerance},
    };
    const int count = sizeof(options) / sizeof(options[0]);
    for (; *words; words++) {
        size_t length = strcspn(*words, "=");
        int i = 0;
        while (i < count &&
               (strlen(options[i].name) != length || strncmp(options[i].name, *words, length) != 0))
            i++;
        if (i == count || (*words)[length] != '=')
            reject(*words, "not of the form NAME=VALUE with a known name");
        double value = value_of(*words, *words + length + 1, options[i].least);
        if (options[i].real)
            *options[i].real = value;
        else if (value != (double)(int)value)
            reject(*words, "a whole number is wanted");
        else
            *options[i].whole = (int)value;
    }
    if (!(p->width > 0) || !(p->step > 0))
        fail("width and step must be greater than 0");
}
