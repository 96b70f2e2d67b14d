/* tests/models/ghost.pml: the protocol of the ghost update: each rank is a writer with two buffers, of
 * which it fills k mod 2 in update k, and a receiver from its neighbours. The writer fills a buffer only
 * when every receiver has consumed k - 2 or more; a receiver raises consumed to k after its last read.
 * Neighbours: DIRECT 0, each rank receives from all lower ones, so that nothing but that wait holds rank 0
 * back; DIRECT 1, each from the next, in place: the writer changes its vector only when all have consumed
 * k - 1 (the space's way). Checked: what is read is whole and of update k. */
#include "common.pml"
#ifndef DIRECT
#define DIRECT 0
#endif
#define UPDATES 4
#define BUFFER  (DIRECT -> 0 : k % 2)

typedef rank_memory {
    byte left[2], right[2];  /* the buffers; [0] alone is the vector when read in place */
    byte published;          /* the writer's */
    byte consumed[N];        /* by each receiver */
}
rank_memory memory[N];

#define RECEIVES(receiver, sender)                                                                 \
    (DIRECT -> sender == (receiver + 1) % N : sender < receiver)

active[N] proctype rank()
{
    byte self = _pid, k = 0, i;
    do
    :: k < UPDATES ->
        k++;
        i = 0;
        do
        :: i < N && RECEIVES(i, self) ->
            if
            :: DIRECT -> AWAIT(1, memory[self].consumed[i] + 1 >= k)
            :: !DIRECT -> AWAIT(1, memory[self].consumed[i] + 2 >= k)
            fi;
            i++
        :: i < N && !RECEIVES(i, self) -> i++
        :: i == N -> break
        od;
        memory[self].left[BUFFER] = k;
        memory[self].right[BUFFER] = k;
        memory[self].published = k;
        i = 0;
        do
        :: i < N && RECEIVES(self, i) ->
            AWAIT(2, memory[i].published >= k);
            assert(memory[i].left[BUFFER] == k);
            assert(memory[i].right[BUFFER] == k);
            memory[i].consumed[self] = k;
            i++
        :: i < N && !RECEIVES(self, i) -> i++
        :: i == N -> break
        od
    :: else -> break
    od
}
