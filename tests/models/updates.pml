/* tests/models/updates.pml: who updates elements of a window's part (src/mpi/rma/accumulate.c), with two
 * stripes. Each rank makes ROUNDS updates: of one stripe, of both one after another in order, or of all by
 * the word for all. Which, is chosen anew each time. Checked: nobody else updates a stripe meanwhile, and
 * nobody waits for ever. Wait 1: who has stripes looks at the word for all; 2: who has that word looks
 * at the stripes. */
#include "common.pml"
#define ROUNDS  2
#define STRIPES 2

bool all, stripe[STRIPES];
byte updating[STRIPES];

inline take(word)
{
    atomic { !word -> word = true }
}

inline enter(i)
{
    updating[i]++;
    assert(updating[i] == 1)
}

active[N] proctype rank()
{
    byte round, first, last, i;
    bool may;
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        round++;
        if
        :: true -> /* many: the word for all */
            take(all);
            i = 0;
            do
            :: i < STRIPES -> AWAIT(2, !stripe[i]); i++
            :: else -> break
            od;
            enter(0);
            enter(1);
            updating[0]--;
            updating[1]--;
            all = false
        :: true -> /* few: stripes first to last */
            if
            :: first = 0; last = 0
            :: first = 0; last = 1
            :: first = 1; last = 1
            fi;
            may = false;
            do
            :: may -> break
            :: else ->
                i = first;
                do
                :: i <= last -> take(stripe[i]); i++
                :: else -> break
                od;
                may = (!all || WITHOUT == 1);
                if
                :: !may ->
                    i = first;
                    do
                    :: i <= last -> stripe[i] = false; i++
                    :: else -> break
                    od;
                    !all
                :: else -> skip
                fi
            od;
            i = first;
            do
            :: i <= last -> enter(i); i++
            :: else -> break
            od;
            i = first;
            do
            :: i <= last -> updating[i]--; stripe[i] = false; i++
            :: else -> break
            od
        fi
    od
}
