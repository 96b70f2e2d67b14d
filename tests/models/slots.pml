/* tests/models/slots.pml: allreduce and broadcast through slots (include/onespace/sync/slots.hpp), with a
 * ring of DEPTH slots. Which operation is an allreduce (all read all) and which a broadcast from which
 * root is chosen anew in each run, alike for all ranks. Checked: who reads slot k finds what was
 * written for operation k, although roots run ahead of slow readers. A payload is written in two
 * steps, so that one that is overwritten too early shows. */
#include "common.pml"
#define DEPTH      2 /* 4 in the header: the fewer, the sooner they are used again */
#define OPERATIONS 4
#define EVERYBODY  N

typedef ring {
    byte value[DEPTH], left[DEPTH], right[DEPTH]; /* counter and payload */
}
ring slot[N];
byte finished[N];
byte root_of[OPERATIONS + 1]; /* EVERYBODY: an allreduce */
bool chosen;

active proctype chooser()
{
    byte k = 1, root;
    do
    :: k <= OPERATIONS ->
        select(root : 0 .. 2); /* by symmetry two roots are enough */
        root_of[k] = (root == 2 -> EVERYBODY : root);
        k++
    :: else -> break
    od;
    chosen = true
}

inline publish()
{
    slot[self].left[k % DEPTH] = k;
    slot[self].right[k % DEPTH] = k;
    slot[self].value[k % DEPTH] = k
}

inline look(from)
{
    AWAIT(1, slot[from].value[k % DEPTH] >= k);
    assert(slot[from].left[k % DEPTH] == k);
    assert(slot[from].right[k % DEPTH] == k)
}

active[N] proctype rank()
{
    byte self = _pid - 1, k = 0, known = 0, i, oldest;
    chosen;
    do
    :: k < OPERATIONS ->
        k++;
        /* begin(): the slot is free when all have finished operation k - DEPTH. */
        if
        :: k > DEPTH && known + DEPTH < k ->
            i = 0;
            oldest = k;
            do
            :: i < N && i != self ->
                AWAIT(2, finished[i] + DEPTH >= k);
                if
                :: finished[i] < oldest -> oldest = finished[i]
                :: else -> skip
                fi;
                i++
            :: i == self -> i++
            :: i == N -> break
            od;
            known = oldest
        :: else -> skip
        fi;
        if
        :: root_of[k] == EVERYBODY ->
            publish();
            i = 0;
            do
            :: i < N -> look(i); i++
            :: else -> break
            od;
            known = k - 1
        :: root_of[k] == self -> publish()
        :: else ->
            i = root_of[k];
            look(i)
        fi;
        i = 0;
        finished[self] = k
    :: else -> break
    od
}
