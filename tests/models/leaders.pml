/* tests/models/leaders.pml: the ghost update of one node's leader with the rest of the world (ghost_leaders.hpp):
 * N ranks, of which 0 is the leader, send to and receive from a peer node, through one outgoing and one incoming
 * buffer in the leader's memory. The peer is a process that takes and gives one message per update, in order,
 * and may be one update ahead, as MPI's messages are. Messages are read from the outgoing buffer at any time
 * until the request has completed, and written to the incoming one at any time from the start of the request.
 * Checked: both are whole and of update k whenever they are looked at, and everybody ends. */
#include "common.pml"
#define UPDATES 3

byte out[N], in[N];                 /* each rank's piece */
byte ready[N], taken[N], sent, arrived;
byte sending, receiving;            /* updates whose requests have been started */
byte out_done, in_done;             /* and completed */

proctype rank(byte self)
{
    byte k = 0, i;
    do
    :: k < UPDATES ->
        k++;
        AWAIT(1, sent + 1 >= k);
        out[self] = k;
        ready[self] = k;
        if
        :: self == 0 ->
            i = 0;
            do
            :: i < N -> AWAIT(2, taken[i] + 1 >= k); i++
            :: else -> break
            od;
            receiving = k;
            i = 0;
            do
            :: i < N -> AWAIT(3, ready[i] >= k); i++
            :: else -> break
            od;
            sending = k;
            (in_done >= k);
            arrived = k;
            (out_done >= k);
            sent = k
        :: else
        fi;
        AWAIT(4, arrived >= k);
        assert(in[self] == k);
        taken[self] = k
    :: else -> break
    od
}

proctype outgoing()
{
    byte k = 0, i;
    do
    :: k < UPDATES ->
        (sending > k);
        k++;
        i = 0;
        do
        :: i < N -> assert(out[i] == k); i++
        :: else -> break
        od;
        out_done = k
    :: else -> break
    od
}

proctype incoming()
{
    byte k = 0, i;
    do
    :: k < UPDATES ->
        (receiving > k);
        k++;
        i = 0;
        do
        :: i < N -> in[i] = k; i++
        :: else -> break
        od;
        in_done = k
    :: else -> break
    od
}

init
{
    byte i = 0;
    atomic {
        do
        :: i < N -> run rank(i); i++
        :: else -> break
        od;
        run outgoing();
        run incoming()
    }
}
