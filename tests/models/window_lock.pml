/* tests/models/window_lock.pml: locks of a window (src/mpi/rma/sync.c): of all its parts by one word, of one part by
 * another. Each rank takes ROUNDS locks: of all, shared, or exclusive, chosen anew each time. With HELD=1 rank 0
 * has a shared lock until rank 1 has got one, too, while the others wait for exclusive ones. Checked: who excludes whom,
 * that no rank waits for ever, and that no bit of a rank that waits is left.
 *
 * WITHOUT=1: an exclusive lock does not take the word for all; 2: who lets others pass does so for ever; 3: exclusive
 * locks of a part do not exclude one another. */
#include "common.pml"
#ifndef HELD
#define HELD 0
#endif
#define ROUNDS 2
#define ALL_PARTS 0
#define PART      1

byte low[2], high[2];
bool low_waits[2], high_waits[2];
byte inside_all, inside_shared, inside_exclusive, finished;
bool has_got_one;

/* Steps that are one compare-and-swap each. */
inline enter_low(word)
{
    has_waited = false;
    do
    :: atomic { high[word] == 0 && (has_waited || !high_waits[word]) ->
           low[word]++; low_waits[word] = false; break }
    :: atomic { high[word] == 0 && high_waits[word] && WITHOUT != 2 -> /* patience has ended */
           low[word]++; low_waits[word] = false; break }
    :: atomic { high[word] != 0 && !(has_waited && low_waits[word]) ->
           has_waited = true; low_waits[word] = true }
    od
}

#define IS_FREE(word, alone) (low[word] == 0 && (!(alone) || high[word] == 0))

inline enter_high(word, alone)
{
    has_waited = false;
    do
    :: atomic { IS_FREE(word, alone) && (has_waited || !low_waits[word]) ->
           high[word]++; high_waits[word] = false; break }
    :: atomic { IS_FREE(word, alone) && low_waits[word] && WITHOUT != 2 ->
           high[word]++; high_waits[word] = false; break }
    :: atomic { !IS_FREE(word, alone) && !(has_waited && high_waits[word]) ->
           has_waited = true; high_waits[word] = true }
    od
}

inline lock_all()
{
    enter_low(ALL_PARTS);
    inside_all++;
    assert(inside_exclusive == 0);
    inside_all--;
    low[ALL_PARTS]--
}

inline lock_shared()
{
    enter_low(PART);
    inside_shared++;
    assert(inside_exclusive == 0);
    if
    :: HELD && _pid == 0 -> has_got_one
    :: HELD && _pid == 1 -> has_got_one = true
    :: else -> skip
    fi;
    inside_shared--;
    low[PART]--
}

inline lock_exclusive()
{
    if
    :: WITHOUT != 1 -> enter_high(ALL_PARTS, false)
    :: else -> skip
    fi;
    enter_high(PART, WITHOUT != 3);
    inside_exclusive++;
    assert(inside_exclusive == 1 && inside_all == 0 && inside_shared == 0);
    inside_exclusive--;
    high[PART]--;
    if
    :: WITHOUT != 1 -> high[ALL_PARTS]--
    :: else -> skip
    fi
}

active[N] proctype rank()
{
    bool has_waited;
    byte round;
    do
    :: round == ROUNDS || (HELD && round == 1) -> break
    :: else ->
        round++;
        if
        :: HELD && _pid < 2 -> lock_shared()
        :: HELD && _pid >= 2 -> lock_exclusive()
        :: !HELD -> lock_all()
        :: !HELD -> lock_shared()
        :: !HELD -> lock_exclusive()
        fi
    od;
    atomic {
        finished++;
        assert(finished < N || (!low[0] && !low[1] && !high[0] && !high[1]));
        assert(finished < N || (!low_waits[0] && !low_waits[1] && !high_waits[0] && !high_waits[1]))
    }
}
