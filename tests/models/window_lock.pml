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

byte shared[2], exclusive[2];
bool shared_waits[2], exclusive_waits[2];
byte inside_all, inside_shared, inside_exclusive, finished;
bool has_got_one;

/* Steps that are one compare-and-swap each. */
inline enter_shared(word)
{
    has_waited = false;
    do
    :: atomic { exclusive[word] == 0 && (has_waited || !exclusive_waits[word]) ->
           shared[word]++; shared_waits[word] = false; break }
    :: atomic { exclusive[word] == 0 && exclusive_waits[word] && WITHOUT != 2 -> /* patience has ended */
           shared[word]++; shared_waits[word] = false; break }
    :: atomic { exclusive[word] != 0 && !(has_waited && shared_waits[word]) ->
           has_waited = true; shared_waits[word] = true }
    od
}

#define IS_FREE(word, alone) (shared[word] == 0 && (!(alone) || exclusive[word] == 0))

inline enter_exclusive(word, alone)
{
    has_waited = false;
    do
    :: atomic { IS_FREE(word, alone) && (has_waited || !shared_waits[word]) ->
           exclusive[word]++; exclusive_waits[word] = false; break }
    :: atomic { IS_FREE(word, alone) && shared_waits[word] && WITHOUT != 2 ->
           exclusive[word]++; exclusive_waits[word] = false; break }
    :: atomic { !IS_FREE(word, alone) && !(has_waited && exclusive_waits[word]) ->
           has_waited = true; exclusive_waits[word] = true }
    od
}

inline lock_all()
{
    enter_shared(ALL_PARTS);
    inside_all++;
    assert(inside_exclusive == 0);
    inside_all--;
    shared[ALL_PARTS]--
}

inline lock_shared()
{
    enter_shared(PART);
    inside_shared++;
    assert(inside_exclusive == 0);
    if
    :: HELD && _pid == 0 -> has_got_one
    :: HELD && _pid == 1 -> has_got_one = true
    :: else -> skip
    fi;
    inside_shared--;
    shared[PART]--
}

inline lock_exclusive()
{
    if
    :: WITHOUT != 1 -> enter_exclusive(ALL_PARTS, false)
    :: else -> skip
    fi;
    enter_exclusive(PART, WITHOUT != 3);
    inside_exclusive++;
    assert(inside_exclusive == 1 && inside_all == 0 && inside_shared == 0);
    inside_exclusive--;
    exclusive[PART]--;
    if
    :: WITHOUT != 1 -> exclusive[ALL_PARTS]--
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
        assert(finished < N || (!shared[0] && !shared[1] && !exclusive[0] && !exclusive[1]));
        assert(finished < N || (!shared_waits[0] && !shared_waits[1] && !exclusive_waits[0] && !exclusive_waits[1]))
    }
}
