/* tests/models/dissemination.pml: the barrier of include/onespace/sync/member.hpp.
 *
 * One counter per rank counts the rounds of all barriers. Checked: nobody leaves barrier b before all
 * have entered it, and nobody is stuck. Run with N and RADIX; see tests/models/check. */
#include "common.pml"
#define BARRIERS 3

byte counter[N]; /* rank i: the rounds that it has entered */
byte entered[N]; /* barriers; for the assertions only */

active[N] proctype rank()
{
    byte self = _pid, round = 0, b = 0, distance, i, from, other;
    do
    :: b < BARRIERS ->
        b++;
        entered[self] = b;
        distance = 1;
        do
        :: distance < N ->
            round++;
            counter[self] = round;
            i = 1;
            do
            :: i < RADIX && i * distance < N ->
                from = (self + N - i * distance) % N;
                AWAIT(1, counter[from] >= round);
                i++
            :: else -> break
            od;
            distance = distance * RADIX
        :: else -> break
        od;
        ALL(other, entered[other] >= b)
    :: else -> break
    od
}
