/* tests/models/common.pml: what the models share.
 *
 * Spin interleaves the steps of ranks on one memory that all see alike. So it finds what is wrong with
 * an order of steps, above all a wait that is missing; it does not see stores and loads that a
 * CPU or compiler exchanges. A missing release or acquire goes unnoticed here: ThreadSanitizer
 * (tests/sync) sees those. Only futex.pml has a store buffer of its own.
 *
 * -DWITHOUT=n leaves wait number n of a model out; tests/models/check expects an error then. */
#ifndef N
#define N 3
#endif
#ifndef RADIX
#define RADIX 2
#endif
#ifndef WITHOUT
#define WITHOUT 0
#endif
#define AWAIT(number, condition)                                                                   \
    if                                                                                             \
    :: WITHOUT == number -> skip                                                                   \
    :: WITHOUT != number -> (condition)                                                            \
    fi
#define ALL(other, condition)                                                                      \
    atomic {                                                                                       \
        other = 0;                                                                                 \
        do                                                                                         \
        :: other < N -> assert(condition); other++                                                 \
        :: else -> break                                                                           \
        od;                                                                                        \
        other = 0                                                                                  \
    }
