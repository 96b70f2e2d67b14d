/* tests/models/ghost.pml: the protocol of the ghost update: each rank is a writer with two buffers for each
 * receiver, of which it fills k mod 2 in update k, and a receiver. The writer fills a buffer only when its
 * receiver has consumed k - 2 or more; a receiver raises consumed to k after its last read. With DIRECT 1
 * receivers read the writer's vector, which it may change only when all have consumed k (the wait in `end`);
 * the address of the vector is another one in every update and travels with `published`.
 * Who sends to whom is any directed graph, chosen at the start (PLAN: -1, or a bit for each pair): asymmetric
 * plans, ranks that only send and may run ahead, ranks that only receive and lag behind, ranks that do neither.
 * Checked: what is read is whole and of update k, and everybody ends. */
#include "common.pml"
#ifndef DIRECT
#define DIRECT 0
#endif
#ifndef PLAN
#define PLAN -1
#endif
#ifndef UPDATES
#define UPDATES 4
#endif

typedef pair_memory {        /* of a writer and a receiver */
    byte left[2], right[2];  /* the buffers */
    byte published, consumed;
    byte address;            /* direct: which of the writer's vectors */
}
typedef rank_memory {
    pair_memory to[N];
    byte left[2], right[2];  /* direct: its vectors */
}
rank_memory memory[N];
short plan = 0;

#define SENDS(writer, reader) (plan & (1 << (writer * N + reader)))

/* The next neighbour from i on, or N. Local, so one step: fewer interleavings that differ in nothing. */
#define FIND(which)                                                                                \
    d_step {                                                                                       \
        do                                                                                         \
        :: i < N && !(which) -> i++                                                                \
        :: else -> break                                                                           \
        od                                                                                         \
    }
#define FOR_EACH(which) i = 0; do :: FIND(which); if :: i == N -> break :: else fi;
#define NEXT            i++ od;

proctype rank(byte self)
{
    byte k = 0, i, from;
    do
    :: k < UPDATES ->
        k++;
        if
        :: DIRECT -> memory[self].left[k % 2] = k; memory[self].right[k % 2] = k
        :: else
        fi;
        FOR_EACH(SENDS(self, i))
            if
            :: DIRECT -> memory[self].to[i].address = k % 2
            :: else ->
                AWAIT(1, memory[self].to[i].consumed + 2 >= k);
                memory[self].to[i].left[k % 2] = k;
                memory[self].to[i].right[k % 2] = k
            fi;
            memory[self].to[i].published = k;
        NEXT
        FOR_EACH(SENDS(i, self))
            AWAIT(2, memory[i].to[self].published >= k);
            if
            :: DIRECT ->
                from = memory[i].to[self].address;
                assert(memory[i].left[from] == k);
                assert(memory[i].right[from] == k);
                from = 0
            :: else ->
                assert(memory[i].to[self].left[k % 2] == k);
                assert(memory[i].to[self].right[k % 2] == k)
            fi;
            memory[i].to[self].consumed = k;
        NEXT
        if
        :: DIRECT ->
            FOR_EACH(SENDS(self, i))
                AWAIT(3, memory[self].to[i].consumed >= k);
            NEXT
            /* all is the caller's again: it may write */
            memory[self].left[k % 2] = 0;
            memory[self].right[k % 2] = 0
        :: else
        fi
    :: else -> break
    od
}

init
{
    byte writer = 0, reader;
    atomic {
        do
        :: writer < N ->
            reader = 0;
            do
            :: reader < N && reader != writer ->
                if
                :: PLAN < 0 || (PLAN & (1 << (writer * N + reader))) ->
                    plan = plan | (1 << (writer * N + reader))
                :: PLAN < 0 || !(PLAN & (1 << (writer * N + reader))) -> skip
                fi;
                reader++
            :: reader < N && reader == writer -> reader++
            :: reader == N -> break
            od;
            writer++
        :: writer == N -> break
        od;
        writer = 0;
        do
        :: writer < N -> run rank(writer); writer++
        :: writer == N -> break
        od
    }
}
