/* tests/pip/shared.h: what the tests' PiP root exports to the guest. */
#ifndef ONESPACE_TESTS_PIP_SHARED_H
#define ONESPACE_TESTS_PIP_SHARED_H

#include "pip/pip.h"

struct shared {
    pip_barrier_t barrier;
    pip_mutex_t mutex;
    volatile int counter, errors, go;
    void *volatile pointer;
    char name[256];
};

#endif
