/* bench/lib/points.h: a point of a program at which it waits to be measured: see
 * onespace_points.py. Plain libc calls only: the same binary runs as a process and as a task. */
#ifndef BENCH_POINTS_H
#define BENCH_POINTS_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Partner `number` creates $ONESPACE_POINTS/NAME.NUMBER, which holds its process ID, and waits for
 * $ONESPACE_POINTS/NAME.go. The file appears complete, since it is renamed. Without that variable
 * returns at once. Ends the program if the directory cannot be written to. */
static inline void point(const char *name, int number)
{
    enum { SHORTEST_US = 5000, LONGEST_US = 160000 };
    const char *directory = getenv("ONESPACE_POINTS");
    char new[4096], path[4096];
    if (!directory)
        return;
    snprintf(new, sizeof(new), "%s/new.%s.%d", directory, name, number);
    snprintf(path, sizeof(path), "%s/%s.%d", directory, name, number);
    FILE *file = fopen(new, "w");
    if (!file || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0 ||
        rename(new, path) != 0) {
        perror(path);
        exit(1);
    }
    snprintf(path, sizeof(path), "%s/%s.go", directory, name);
    for (useconds_t pause = SHORTEST_US; access(path, F_OK) != 0;) {
        usleep(pause);
        if (pause < LONGEST_US)
            pause *= 2; /* hundreds of ranks wait on few CPUs */
    }
}

#endif
