/* tests/models/exports.pml: one entry of the table of exports (src/space/exports.c), whose owner
 * gives it names without a lock for readers.
 *
 * The owner fills the entry USES times, alternately for two names, whose value is the use's number,
 * and frees it in between. It may be killed at any step; the reaper then frees the entry. A reader
 * looks for one of the names. Checked: a reader that finds it has read a value that the entry had
 * under that name, as a whole; in the end the entry is free.
 *
 * Stores and loads of the fields are reordered as the fences allow: between two changes of the state
 * the owner's stores go in any order, and so do a reader's loads.
 *
 * WITHOUT=1: a reader does not compare the state after it has read the fields; 2: the state has no
 * number of uses; 3: LIVE is seen before the fields; 4: the fields are seen before CLAIMED, and so
 * before the previous name is FREE. */
#include "common.pml"
#define USES 3

#define FREE    0
#define CLAIMED 1
#define LIVE    2
#define STATE(kind, use) ((WITHOUT == 2 -> 0 : (use) * 4) + (kind))
#define KIND(state)      ((state) % 4)

byte state = FREE, name, low, high; /* a value in two parts, which are equal */
bool killed, ended;

/* The fields of a use, in any order. */
inline fill(number)
{
    do
    :: stored == 7 -> break
    :: !(stored & 1) -> d_step { name = (number) % 2; stored = stored | 1 }
    :: !(stored & 2) -> d_step { low = number; stored = stored | 2 }
    :: !(stored & 4) -> d_step { high = number; stored = stored | 4 }
    od;
    stored = 0
}

active proctype owner()
{
    byte use = 0, stored = 0;
    {
        do
        :: use < USES ->
#if WITHOUT == 4
            fill(use + 1);
#endif
            if
            :: use > 0 -> state = STATE(FREE, use)
            :: else -> skip
            fi;
            d_step {
                use++;
                state = STATE(CLAIMED, use)
            };
#if WITHOUT == 3
            state = STATE(LIVE, use);
#endif
#if WITHOUT != 4
            fill(use);
#endif
            state = STATE(LIVE, use)
        :: else -> break
        od
    } unless {
        killed
    };
    state = state - KIND(state) + FREE; /* the reaper: exports_remove_all */
    assert(KIND(state) == FREE);
    ended = true
}

active proctype killer()
{
    if
    :: killed = true
    :: skip
    fi
}

active proctype reader()
{
    byte seen, a, b, n, loaded;
    do
    :: ended -> break
    :: !ended ->
        seen = state;
        if
        :: KIND(seen) == LIVE ->
            do
            :: loaded == 7 -> break
            :: !(loaded & 1) -> d_step { n = name; loaded = loaded | 1 }
            :: !(loaded & 2) -> d_step { a = low; loaded = loaded | 2 }
            :: !(loaded & 4) -> d_step { b = high; loaded = loaded | 4 }
            od;
            assert(!(n == 1 && (state == seen || WITHOUT == 1)) || (a == b && a % 2 == 1));
            d_step {
                seen = 0;
                a = 0;
                b = 0;
                n = 0;
                loaded = 0
            }
        :: else -> skip
        fi
    od
}
