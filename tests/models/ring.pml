/* tests/models/ring.pml: operands of nonblocking collective operations (src/mpi/collectives/nonblocking.c). Each of N
 * ranks starts OPS operations, any number of them before it completes the first; operation n has slot n % slots of a
 * ring, which the rank extends to one of twice the size when another rank has not finished the operation that had the
 * slot. A rank reads the operands of all others, or none, as the root of a broadcast does; then it completes when all
 * have started the operation AHEAD before. Checked: each operand that is read is that of the operation; one that is
 * there is found; no rank needs a larger ring than its operations.
 *
 * WITHOUT=1: a slot is used again whatever the others have finished; 2: the number is published before the data;
 * 3: a reader goes on to a ring whose first operation comes later; 4: the ring is published before its first number. */
#include "common.pml"
#ifndef OPS
#define OPS 4
#endif
#ifndef AHEAD
#define AHEAD 2
#endif
#define RINGS 3 /* of 1, 2 and 4 slots */
#define SLOTS 4
#define AT(r, ring, n) (((r) * RINGS + (ring)) * SLOTS + (n) % (1 << (ring)))

byte number[N * RINGS * SLOTS], data[N * RINGS * SLOTS]; /* data: the operation, 255 while it is written */
byte first[N * RINGS], rings[N], finished[N];
byte published[N]; /* operations; only for the check */

/* The least that all have finished. */
inline find_finished()
{
    least = started;
    other = 0;
    do
    :: other < N ->
        least = (finished[other] < least -> finished[other] : least);
        other++
    :: else -> break
    od
}

inline publish()
{
    if
    :: started > free_until && WITHOUT != 1 ->
        find_finished();
        if
        :: least + (1 << own) >= started -> free_until = least + (1 << own)
        :: else ->
            assert(own + 1 < RINGS);
            own++;
            free_until = started + (1 << own) - 1;
            if
            :: WITHOUT == 4 -> rings[self] = own + 1; first[self * RINGS + own] = started
            :: else -> first[self * RINGS + own] = started; rings[self] = own + 1
            fi
        fi
    :: else -> skip
    fi;
    if
    :: WITHOUT == 2 -> number[AT(self, own, started)] = started; data[AT(self, own, started)] = started
    :: else ->
        data[AT(self, own, started)] = 255;
        data[AT(self, own, started)] = started;
        number[AT(self, own, started)] = started
    fi;
    published[self] = started
}

/* Reads the operand of the operation `done + 1` from rank `source`, if it is there. */
inline read_operand()
{
    found = false;
    is_there = published[source] > done;
    do
    :: number[AT(source, ring[source], done + 1)] == done + 1 ->
        assert(data[AT(source, ring[source], done + 1)] == done + 1);
        found = true;
        break
    :: else ->
        if
        :: ring[source] + 1 < rings[source] &&
           (first[source * RINGS + ring[source] + 1] <= done + 1 || WITHOUT == 3) ->
            ring[source] = ring[source] + 1
        :: else -> break
        fi
    od;
    assert(found || !is_there)
}

/* Whether rank `other` has started the operation. */
#define HAS_STARTED(other, n)                                                                       \
    (number[AT(other, 0, n)] >= (n) || (rings[other] > 1 && (first[other * RINGS + 1] > (n) ||      \
     number[AT(other, 1, n)] >= (n))) || (rings[other] > 2 && (first[other * RINGS + 2] > (n) ||    \
     number[AT(other, 2, n)] >= (n))))

active[N] proctype rank()
{
    byte self = _pid, started, done, own, free_until = 1, least, other, source, ring[N];
    bool found, reads, is_there;
    rings[self] = 1;
    source = N;
    do
    :: started < OPS -> started++; publish()
    :: done < started && source == N -> /* begins the next */
        source = 0;
        reads = (self + done) % N != 0 /* the root of operation n is rank (N - n) % N */
    :: done < started && source < N ->
        if
        :: source == self -> found = true
        :: source != self && reads -> read_operand()
        :: else -> found = done + 1 <= AHEAD || HAS_STARTED(source, done + 1 - AHEAD)
        fi;
        if
        :: found -> source++
        :: else -> skip
        fi;
        if
        :: source == N -> done++; finished[self] = done
        :: else -> skip
        fi
    :: done == OPS -> break
    od
}
