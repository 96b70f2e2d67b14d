/* tests/models/insitu.pml: a channel of depth 1 (src/insitu): no consumer sees a step that is written
 * to, none of every step misses one, and nobody sleeps for ever.
 *
 * A consumer sets its bit and looks at the entry's state; the producer sets the state and looks at
 * the bits. Process 0 is the producer, which waits; 1 to EVERY take every step, the others the latest.
 * -DWITHOUT=1: the producer does not look again after it set the state. 2: a consumer does not look
 * at the state. 3: who is about to sleep does not look at its condition again. */
#include "common.pml"
#ifndef STEPS
#define STEPS 2
#endif
#ifndef EVERY
#define EVERY 1
#endif

mtype = { FREE, OPEN, COMPLETE, RECLAIMED };
mtype state = FREE;
byte sequence, latest, written; /* written: the step in the arrays, 0 while they are written to */
bool holding[N], asleep[N];
byte seen[N];
bool rung[N]; /* the bell's counter is another one than when the process looked at it */
bool news_wanted, freed_wanted;

inline ring_news()
{
    if
    :: news_wanted ->
        news_wanted = false;
        d_step {
            i = 1;
            do
            :: i < N -> rung[i] = true; i++
            :: else -> break
            od;
            i = 1
        };
        d_step {
            do
            :: i < N -> asleep[i] = false; i++
            :: else -> break
            od;
            i = 0
        }
    :: else -> skip
    fi
}

inline ring_freed()
{
    if
    :: freed_wanted -> freed_wanted = false; rung[0] = true; asleep[0] = false
    :: else -> skip
    fi
}

/* Each word that another writes is read in a step of its own; counting on goes with the read before
 * it and, as in round.c, the first that needs the step decides: so two consumers can be searched to
 * the end. */
inline look_who_needs()
{
    d_step { is_needed = false; i = 1 }
    do
    :: i < N && !is_needed ->
        is_needed = holding[i];
        d_step { is_needed = is_needed || (i <= EVERY && seen[i] < sequence); i++ }
    :: else -> break
    od;
    i = 0
}

inline reclaim()
{
    look_who_needs();
    if
    :: is_needed -> skip
    :: else ->
        state = RECLAIMED;
        if
        :: WITHOUT != 1 -> look_who_needs()
        :: WITHOUT == 1 -> skip
        fi;
        if
        :: is_needed -> state = COMPLETE; ring_news()
        :: else -> state = FREE
        fi
    fi
}

active proctype producer()
{
    byte i, step = 1;
    bool is_needed, armed, is_second;
    do
    :: step > STEPS -> break
    :: else ->
        armed = false;
        is_second = false;
        do
        :: state == FREE -> break
        :: state != FREE ->
            reclaim();
            if
            :: state == FREE -> break
            :: state != FREE ->
                if
                :: !armed -> rung[0] = false; freed_wanted = true; armed = true
                :: armed -> skip
                fi;
                if
                :: is_second || WITHOUT == 3 ->
                    atomic { asleep[0] = !rung[0] }
                    !asleep[0];
                    armed = false;
                    is_second = false
                :: else -> is_second = true
                fi
            fi
        od;
        state = OPEN;
        written = 0;
        written = step;
        atomic { sequence = step; state = COMPLETE } /* one word */
        latest = step;
        ring_news();
        step++
    od
}

active[N - 1] proctype consumer()
{
    byte i, step;
    bool armed, is_second;
    do
    :: seen[_pid] == STEPS -> break
    :: else ->
        step = latest;
        if
        :: step > seen[_pid] ->
            holding[_pid] = true;
            if
            :: (state == COMPLETE && sequence == step) || WITHOUT == 2 ->
                assert(_pid > EVERY || step == seen[_pid] + 1);
                seen[_pid] = step;
                assert(written == step);
                assert(written == step);
                holding[_pid] = false;
                ring_freed();
                armed = false;
                is_second = false;
                step = 0;
                goto next
            :: else ->
                holding[_pid] = false;
                ring_freed()
            fi
        :: else -> skip
        fi;
        if
        :: !armed -> rung[_pid] = false; news_wanted = true; armed = true
        :: armed -> skip
        fi;
        if
        :: is_second || WITHOUT == 3 ->
            atomic { asleep[_pid] = !rung[_pid] }
            !asleep[_pid];
            armed = false;
            is_second = false
        :: else -> is_second = true
        fi;
    next:
        skip
    od
}
