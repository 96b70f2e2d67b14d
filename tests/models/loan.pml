/* tests/models/loan.pml: memory that a writer of ADIOS2 lends to the readers of a step (plugins/adios2/step.hpp), by a
 * writer and N - 1 readers, of which DEATHS are killed at any step, or the writer. Each reader holds the step, then reads
 * the lent memory or the copy, and gives the step back; PLACES of them at a time may read lent memory. Checked: the
 * program's memory is its own again only when nobody reads it, a copy is read only when it is complete, and nobody
 * waits for ever.
 *
 * WITHOUT=1: a reader does not look at the state again when it has entered; 2: the writer does not wait for those who
 * have entered; 3: it waits for dead ones, too; 4: it says that there is a copy before there is one; 5: it takes a step
 * back that a reader holds; 6: a reader does not ask whether the writer lives; 7: nobody takes the place of a dead reader. */
#include "common.pml"
#ifndef PLACES
#define PLACES 1
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#define READERS (N - 1)
#define WRITER  READERS

mtype = { NONE, LENT, COPIED };
mtype state = NONE;
bool has_copy, is_own; /* is_own: the program writes to the memory that was lent */
bool released[READERS], dead[N]; /* released: by the reader, of a dead one by the reaper */
byte reading[PLACES], deaths; /* reading: reader + 1 */

inline may_die()
{
    if
    :: d_step {
            deaths < DEATHS ->
                deaths++;
                dead[self] = true
        };
        goto out
    :: true
    fi
}

/* The writer looks at all places again and again; that each is seen once when nobody reads there is what it waits for,
 * and possibly less. */
inline await_readers()
{
    p = 0;
    do
    :: p < PLACES ->
        (reading[p] == 0 || (dead[reading[p] - 1] && WITHOUT != 3));
        p++
    :: else -> break
    od
}

active[READERS] proctype reader()
{
    byte self = _pid, p;
    state != NONE; /* the step is published, and owed to each reader */
    may_die();
    if
    :: true -> goto lasting
    :: true
    fi;

    /* Borrowed: for the time of a Get. */
    p = PLACES;
    do
    :: state == LENT ->
        if
        :: d_step {
                reading[0] == 0 || (dead[reading[0] - 1] && WITHOUT != 7) ->
                    reading[0] = self + 1;
                    p = 0
            }
        :: d_step {
                reading[PLACES - 1] == 0 || (dead[reading[PLACES - 1] - 1] && WITHOUT != 7) ->
                    reading[PLACES - 1] = self + 1;
                    p = PLACES - 1
            }
        :: state != LENT
        fi;
        if
        :: p < PLACES -> break
        :: else -> skip
        fi
    :: else -> break
    od;
    may_die();
    if
    :: p < PLACES && (state == LENT || WITHOUT == 1) ->
        assert(!is_own);
        may_die();
        assert(!is_own)
    :: else -> assert(has_copy)
    fi;
    if
    :: p < PLACES -> reading[p] = 0
    :: else -> skip
    fi;
    goto out;

lasting: /* lasting_data: as long as the step is held */
    state != LENT || (dead[WRITER] && WITHOUT != 6);
    if
    :: state == LENT -> assert(!is_own)
    :: else -> assert(has_copy)
    fi;
    may_die();
    assert(has_copy || !is_own);
out:
    released[self] = true
}

active proctype writer()
{
    byte self = WRITER, p, i;
    state = LENT;
    may_die();
    do
    :: i < READERS && (released[i] || WITHOUT == 5) -> i++
    :: i == READERS -> goto own /* all have given it back */
    :: true -> break            /* they take too long */
    od;
    if
    :: WITHOUT == 4 ->
        state = COPIED;
        has_copy = true
    :: else ->
        has_copy = true;
        may_die();
        state = COPIED
    fi;
    may_die();
    if
    :: WITHOUT != 2 -> await_readers()
    :: else -> skip
    fi;
own:
    is_own = true;
out:
    skip
}
