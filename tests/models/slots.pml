/* tests/models/slots.pml: allreduce and broadcast through slots (include/onespace/sync/slots.hpp), with a
 * ring of DEPTH slots. Which operation is an allreduce (all read all) and which a broadcast from which
 * root is chosen anew in each run, alike for all ranks. Checked: who reads slot k finds what was
 * written for operation k, although roots run ahead of slow readers. A payload is written in two
 * steps, so that one that is overwritten too early shows.
 *
 * With -DBARRIER=1 all ranks meet in a barrier after one of the operations, and know then that all have
 * finished it.
 *
 * With -DIN_PLACE=1 a slot holds an offer (offers.hpp): its readers read the owner's memory, which the
 * owner changes as soon as the operation is over for it. */
#include "common.pml"
#ifndef EVERY
#define EVERY 1 /* after how many operations a rank says what it has finished, if nobody awaits it */
#endif
#define DEPTH      (2 * EVERY) /* 8 or 64 in the header: the fewer, the sooner they are used again */
#define OPERATIONS (DEPTH + 2)
#define EVERYBODY  N
#ifndef IN_PLACE
#define IN_PLACE 0
#endif
#ifndef BARRIER
#define BARRIER 0
#endif

typedef ring {
    byte value[DEPTH], left[DEPTH], right[DEPTH]; /* counter and payload */
}
ring slot[N];
byte finished[N];
byte memory[N]; /* of the program */
byte root_of[OPERATIONS + 1]; /* EVERYBODY: an allreduce */
byte barrier_after; /* 0: no barrier */
bool entered[N];
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
#if BARRIER
    select(barrier_after : 1 .. DEPTH);
#endif
    chosen = true
}

inline publish()
{
    d_step {
        memory[self] = IN_PLACE * k;
        slot[self].left[k % DEPTH] = k
    };
    slot[self].right[k % DEPTH] = k;
    slot[self].value[k % DEPTH] = k
}

inline look(from)
{
    AWAIT(1, slot[from].value[k % DEPTH] >= k);
    assert(slot[from].left[k % DEPTH] == k);
    d_step {
        assert(slot[from].right[k % DEPTH] == k);
        assert(!IN_PLACE || memory[from] == k)
    }
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
#if EVERY > 1
        :: known + DEPTH >= k && k % EVERY == EVERY - 1 ->
            oldest = k;
            d_step {
                i = 0;
                do
                :: i < N ->
                    if
                    :: i != self && finished[i] < oldest -> oldest = finished[i]
                    :: else -> skip
                    fi;
                    i++
                :: else -> break
                od;
                if
                :: oldest > known -> known = oldest
                :: else -> skip
                fi
            }
#endif
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
        /* end(), which tells what somebody awaits. */
        if
        :: k % EVERY == 0 || (IN_PLACE && root_of[k] != self) -> finished[self] = k
        :: else -> skip
        fi;
#if IN_PLACE
        /* await_end(): of the readers of this rank's offer. */
        if
        :: (root_of[k] == EVERYBODY || root_of[k] == self) ->
            do
            :: i < N && i != self -> AWAIT(3, finished[i] >= k); i++
            :: i == self -> i++
            :: i == N -> break
            od;
            i = 0;
            memory[self] = 0
        :: else -> skip
        fi
#endif
#if BARRIER
        if
        :: k == barrier_after ->
            entered[self] = true;
            i = 0;
            do
            :: i < N -> AWAIT(4, entered[i]); i++
            :: else -> break
            od;
            known = k
        :: else -> skip
        fi
#endif
    :: else -> break
    od
}
