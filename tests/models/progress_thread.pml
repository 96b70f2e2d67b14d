/* tests/models/progress_thread.pml: the word by which ranks that wait wake the progress thread, or helper, of one that
 * computes (src/mpi/group/progress_thread.c): N - 1 ranks, each of which asks ASKS times, and the helper's own process,
 * which may end it at any time. Checked: nobody waits for ever for a helper that was asked, nor for its end; none is asked after the end.
 *
 * DIES=1: the first rank ends before it has woken the helper that it has asked; then the others find that out by time.
 *
 * WITHOUT=1: the kernel does not look at the word again before the helper sleeps; 2: the helper stores that it sleeps
 * whatever is there; 3: who asks does not wake it; 4: nobody wakes a helper that was asked long ago; 5: its process
 * does not wake it for its end. */
#include "common.pml"
#ifndef ASKS
#define ASKS 2
#endif
#ifndef DIES
#define DIES 0
#endif

mtype = {NONE, ASLEEP, WANTED};
mtype state = NONE;
bool asleep, ended, has_died;

active proctype helper()
{
    mtype seen;
    state = ASLEEP;
    do
    :: seen = state;
        if
        :: seen == NONE -> break
        :: seen == ASLEEP ->
            atomic { /* FUTEX_WAIT */
                if
                :: state == ASLEEP || WITHOUT == 1 -> asleep = true
                :: else -> skip
                fi
            };
end_asleep:
            !asleep
        :: seen == WANTED ->
            assert(!ended); /* a step of MPI's */
            atomic {
                if
                :: state == WANTED || WITHOUT == 2 -> state = ASLEEP
                :: else -> skip
                fi
            }
        fi
    od;
    ended = true
}

inline wake()
{
    asleep = false
}

active[N - 1] proctype rank()
{
    byte self = _pid - 1, asks;
    bool is_mine;
    (!DIES || self == 0 || has_died);
    do
    :: asks < ASKS ->
        asks++;
        is_mine = false;
        atomic {
            if
            :: state == ASLEEP -> state = WANTED; is_mine = true
            :: state == WANTED && has_died && WITHOUT != 4 -> is_mine = true
            :: else -> skip
            fi
        };
        if
        :: is_mine && DIES && self == 0 -> has_died = true; goto end
        :: is_mine && (!DIES || self != 0) ->
            if
            :: WITHOUT == 3 -> skip
            :: else -> wake()
            fi;
            state != WANTED
        :: else -> skip
        fi;
        assert(N != 3 || !DIES || self == 0 || state != WANTED) /* the only rank that is left */
    :: else -> break
    od;
end:
    has_died = has_died || (DIES && self == 0)
}

active proctype owner()
{
    if
    :: true -> skip /* not in this model's time */
    :: state != NONE ->
        state = NONE;
        if
        :: WITHOUT == 5 -> skip
        :: else -> wake()
        fi;
        ended
    fi
}
