/* bench/lib/options.h: the options common to p2p, collectives and their limit, so that one command
 * line serves a program and the limit. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdlib.h>
#include <string.h>

#define OPTIONS_COMMON "o:b:t:f"

struct options {
    const char *wanted; /* names of operations, comma-separated */
    int batches, fresh; /* fresh: the data to send has just been written */
    double batch_seconds;
};
#define OPTIONS_INIT(operations)                                                                   \
    {                                                                                              \
        operations, 3, 0, 0.01                                                                     \
    }

/* Handles one option found by getopt; 0 if it is none of these. */
static inline int options_take(struct options *options, int option, const char *argument)
{
    switch (option) {
    case 'o':
        options->wanted = argument;
        return 1;
    case 'b':
        options->batches = atoi(argument);
        return 1;
    case 't':
        options->batch_seconds = atof(argument) / 1000;
        return 1;
    case 'f':
        options->fresh = 1;
        return 1;
    default:
        return 0;
    }
}

static inline int options_want(const struct options *options, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = options->wanted; (at = strstr(at, name)); at += length)
        if ((at == options->wanted || at[-1] == ',') && (at[length] == 0 || at[length] == ','))
            return 1;
    return 0;
}

#endif
