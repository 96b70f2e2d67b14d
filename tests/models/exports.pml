/* tests/models/exports.pml: one entry of the table of exports (src/space/exports.c), whose owner
 * gives it names without a lock for readers.
 *
 * The writer fills the entry USES times, alternately for two names, whose value is the use's number,
 * and frees it in between; in the end it is killed at some step, and the reaper frees the entry. Two
 * readers look for the first name. Checked: a reader that finds it has read a value that the entry
 * had under that name, as a whole; in the end the entry is free.
 *
 * Stores and loads of the fields are reordered as fences allow: the writer's stores between two
 * changes of the state go in any order, and so do a reader's loads of name and value.
 *
 * WITHOUT=1: a reader does not compare the state after it has read the fields; 2: the state has no
 * number of uses; 3: LIVE may be seen before the fields; 4: the fields may be seen before CLAIMED. */
#include "common.pml"
#define USES 4

#define FREE    0
#define CLAIMED 1
#define LIVE    2
#define STATE(kind, use) ((WITHOUT == 2 -> 0 : (use) * 4) + (kind))
#define KIND(state)      ((state) % 4)

byte state = STATE(FREE, 0), name, low, high; /* a value in two parts, which are equal */
bool killed, ended;

/* Stores of one use: before[i] marks what must be visible first. */
inline fill()
{
    done = 0;
    do
    :: done == 15 -> break
    :: !(done & 1) && (WITHOUT == 4 || (done & 8)) -> name = use % 2; done = done | 1
    :: !(done & 2) && (WITHOUT == 4 || (done & 8)) -> low = use; done = done | 2
    :: !(done & 4) && (WITHOUT == 4 || (done & 8)) -> high = use; done = done | 4
    :: !(done & 8) -> state = STATE(CLAIMED, use); done = done | 8
    :: WITHOUT == 3 && (done & 8) && KIND(state) == CLAIMED -> state = STATE(LIVE, use)
    od;
    state = STATE(LIVE, use)
}

active proctype owner()
{
    byte use = 0, done;
    {
        do
        :: use < USES ->
            use++;
            fill();
            state = STATE(FREE, use)
        :: else -> break
        od
    } unless {
        killed
    };
    /* The reaper: exports_drop */
    if
    :: KIND(state) != FREE -> state = state - KIND(state) + FREE
    :: else -> skip
    fi;
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

active[2] proctype reader()
{
    byte seen, a, b, n, loads, now;
    bool is_found;
    do
    :: ended -> break
    :: else ->
        seen = state;
        if
        :: KIND(seen) != LIVE -> skip
        :: else ->
            loads = 0;
            do
            :: loads == 7 -> break
            :: !(loads & 1) -> n = name; loads = loads | 1
            :: !(loads & 2) -> a = low; loads = loads | 2
            :: !(loads & 4) -> b = high; loads = loads | 4
            od;
            now = state;
            is_found = n == 1 && (now == seen || WITHOUT == 1);
            assert(!is_found || (a == b && a % 2 == 1));
            seen = 0; a = 0; b = 0; n = 0; loads = 0; now = 0; is_found = false
        fi
    od
}
