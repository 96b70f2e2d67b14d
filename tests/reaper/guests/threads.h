/* tests/reaper/guests/threads.h: what a task in thread mode tells its spawner. */
#ifndef ONESPACE_TESTS_PROGRAMS_THREADS_H
#define ONESPACE_TESTS_PROGRAMS_THREADS_H

#include <stdio.h>

struct report {
    volatile int pid, tid, value, handlers, go;
    volatile int threads, beats; /* counted by several threads at once: with atomic additions */
    int fd;                      /* of the shared table of descriptors */
    int *volatile global, *volatile local;
    FILE *stream;
};

#endif
