/* tests/models/calls.pml: a donor and the memory that it holds (src/remote_call/remote_call.h): N - 1 callers, and MEMBERS
 * members that serve one after the other in the same slot, each of which ends at any time and is then looked after by the
 * reaper. Each caller makes CALLS calls, into any of them, and may be late by any number of steps. Checked: who is in
 * a call finds the memory of the member that it has called; when nobody is in a call the memory is unmapped.
 *
 * A donor is given back by a plain store, which may reach the others after the load of `gone` that follows; the
 * reaper looks again, by itself, for longer than a store may take, and later only when it is told.
 *
 * WITHOUT=1: a caller does not look whether the member has gone; 2: nor whose the donor is; 3: looks at the two in the
 * other order; 4: gives back a donor that it took too late whoever has it; 5: the reaper looks only when it is told;
 * 6: it does not look at the donor before it unmaps; 7: who is late to leave tells nobody. */
#include "common.pml"
#ifndef MEMBERS
#define MEMBERS 2
#endif
#ifndef CALLS
#define CALLS 2
#endif
#define CALLERS (N - 1)

#define FREE   0
#define MAKING 1
#define IDLE   2
#define LENT   3 /* to caller state - LENT */

byte state = FREE, owner, mapped; /* owner and mapped: the member, 0: none */
byte in_call[CALLERS], delayed, finished;
bool gone, pending, changed;

inline tell()
{
    if
    :: pending -> changed = true
    :: else -> skip
    fi
}

/* Whether the donor that was taken is of the wanted member, which lives. */
inline check()
{
    if
    :: WITHOUT == 3 ->
        right = owner == wanted;
        right = right && !gone
    :: else ->
        right = !gone || WITHOUT == 1;
        right = right && (owner == wanted || WITHOUT == 2)
    fi
}

inline use()
{
    in_call[self] = wanted;
    assert(mapped == wanted);
    in_call[self] = 0
}

inline give_back()
{
    if
    :: true ->
        state = IDLE;
        is_gone = gone
    :: true ->
        d_step {
            delayed++;
            is_gone = gone
        };
        d_step {
            state = IDLE;
            delayed--
        }
    fi;
    if
    :: is_gone && WITHOUT != 7 -> tell()
    :: else -> skip
    fi
}

inline give_back_unused()
{
    d_step {
        if
        :: state == LENT + self || WITHOUT == 4 -> state = IDLE
        :: else -> skip
        fi
    };
    tell()
}

active[CALLERS] proctype caller()
{
    byte self = _pid, wanted, calls;
    bool taken, right, is_gone;
    do
    :: calls < CALLS ->
        calls++;
        taken = false;
        select(wanted : 1 .. MEMBERS);
        if
        :: owner == wanted -> /* it serves; else nothing is done */
            d_step {
                if
                :: state == IDLE ->
                    state = LENT + self;
                    taken = true
                :: else -> skip
                fi
            }
        :: else -> skip
        fi;
        if
        :: taken ->
            check();
            if
            :: right -> use(); give_back()
            :: else -> give_back_unused()
            fi
        :: else -> skip
        fi
    :: else -> break
    od;
    finished++
}

inline serve()
{
    mapped = member;
    owner = 0;
    state = FREE;
    gone = false;
    d_step {
        assert(state == FREE);
        state = MAKING
    };
    d_step {
        assert(state == MAKING);
        state = IDLE
    };
    state == IDLE; /* it may be lent to a late caller */
    owner = member
}

inline unmap()
{
    d_step {
        i = 0;
        do
        :: i < CALLERS ->
            assert(in_call[i] != member);
            i++
        :: else -> break
        od;
        i = 0;
        mapped = 0
    }
}

active proctype members_and_reaper()
{
    byte member, i;
    bool polls;
    do
    :: member < MEMBERS ->
        member++;
        serve();
        gone = true;
        polls = WITHOUT != 5;
        pending = true;
        do
        :: state < LENT || WITHOUT == 6 -> break
        :: else ->
            if
            :: polls && state < LENT -> skip
            :: polls && state >= LENT && delayed == 0 -> polls = false
            :: changed -> changed = false
            fi;
            pending = true
        od;
        unmap();
        d_step {
            pending = false;
            changed = false
        }
    :: else -> break
    od
}
