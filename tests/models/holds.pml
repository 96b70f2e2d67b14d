/* tests/models/holds.pml: holding an ended member's memory (src/space/member.h), by N - 1 holders and the reaper.
 * The first has a hold from the start and takes another; each gives back what it got, and the reaper looks again
 * whenever it is told so. Checked: memory is not unmapped while it is held, who holds it gets another hold, and in
 * the end, when nobody holds it, it is unmapped.
 *
 * WITHOUT=1: a holder gives up while the reaper looks; 2: the reaper looks before it asks to be told; 3: the reaper
 * does not look again before it unmaps. */
#include "common.pml"
#define HOLDERS (N - 1)

#define PRESENT 0
#define ASKED   1
#define GOING   2
#define NONE    3

byte memory = PRESENT, cell[HOLDERS], holding[HOLDERS], finished;
bool ready, pending, changed;

inline take()
{
    cell[self]++;
    atomic {
        AWAIT(1, memory != ASKED);
        seen = memory
    };
    if
    :: seen == PRESENT -> holding[self]++
    :: else ->
        assert(!holding[self]);
        cell[self]--
    fi
}

inline give()
{
    holding[self]--;
    d_step {
        cell[self]--;
        left = cell[self]
    };
    if
    :: left == 0 && pending -> changed = true
    :: else -> skip
    fi
}

active[HOLDERS] proctype holder()
{
    byte self = _pid, left, seen;
    if
    :: self == 0 ->
        d_step {
            cell[0] = 1;
            holding[0] = 1;
            ready = true
        }
    :: else -> ready
    fi;
    take();
    do
    :: holding[self] -> give()
    :: else -> break
    od;
    finished++
}

inline look()
{
    memory = ASKED;
    if
    :: WITHOUT != 2 -> pending = true
    :: else -> skip
    fi;
    i = 0;
    held = false;
    do
    :: i < HOLDERS && WITHOUT != 3 ->
        held = held || cell[i] > 0;
        i++
    :: else -> break
    od;
    if
    :: held ->
        memory = PRESENT;
        pending = true
    :: else ->
        memory = GOING;
        i = 0;
        do
        :: i < HOLDERS ->
            assert(!holding[i]);
            i++
        :: else -> break
        od;
        i = 0;
        memory = NONE
    fi
}

active proctype reaper()
{
    byte i;
    bool held;
    ready;
    look();
    do
    :: memory == NONE -> break
    :: memory != NONE && pending && changed ->
        changed = false;
        pending = false;
        look()
    :: memory != NONE && finished == HOLDERS -> assert(pending && changed); /* else nobody tells it any more */
    od
}
