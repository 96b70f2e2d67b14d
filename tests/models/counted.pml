/* tests/models/counted.pml: the paper's two barriers (include/onespace/sync/barrier.hpp): arrivals are
 * counted in one word that only grows; the leader releases the others, one by one (TREE 0) or along a
 * binomial tree (TREE 1). Checked as in dissemination.pml. */
#include "common.pml"
#ifndef TREE
#define TREE 0
#endif
#define BARRIERS 3

byte arrivals;
byte release[N]; /* of the rank that waits; its parent writes it */
byte entered[N]; /* for the assertions only */

inline release_children()
{
    bit_ = 1;
    child = self;
    do
    :: TREE == 0 && self == 0 && child + 1 < N ->
        child++;
        release[child] = b
    :: TREE == 1 && self + bit_ < N ->
        if
        :: bit_ > self -> release[self + bit_] = b
        :: else -> skip
        fi;
        bit_ = bit_ * 2
    :: else -> break
    od
}

active[N] proctype rank()
{
    byte self = _pid, b = 0, child, bit_, other;
    do
    :: b < BARRIERS ->
        b++;
        entered[self] = b;
        if
        :: self == 0 -> AWAIT(1, arrivals >= b * (N - 1))
        :: else ->
            arrivals++; /* one step: fetch_add */
            AWAIT(2, release[self] >= b)
        fi;
        release_children();
        ALL(other, entered[other] >= b)
    :: else -> break
    od
}
