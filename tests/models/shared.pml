/* tests/models/shared.pml: one entry of the table of shared mappings (src/space/shared_mappings.h). Tasks make it,
 * join it, make it their own and release it; DEATHS of them are killed between any two accesses to memory,
 * and a reaper goes on from there. Checked: what a living task uses is mapped, and when all tasks have
 * ended nothing is left. WITHOUT=1: nobody looks for users again after GOING; 2: who joins does not look at
 * the state; 3: the reaper looks only where the dead task was a user. */
#ifndef N
#define N 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef WITHOUT
#define WITHOUT 0
#endif

#define FREE    0
#define FILLING 1
#define LIVE    2
#define GOING   3
#define OWN     4
#define NOBODY  N

byte state = FREE, by = NOBODY; /* one word */
bool hash, mapped;
bool user[N];
bool uses[N];  /* what the task believes; not in memory */
bool killed[N], ended[N], reaping;
byte deaths, dropped;

inline map()
{
    assert(!mapped);
    mapped = 1
}

inline unmap()
{
    atomic {
        i = 0;
        do
        :: i < N -> assert(!uses[i] || killed[i]); i++
        :: else -> break
        od;
        mapped = 0
    }
}

/* How many bits are set, read one after the other. */
inline count()
{
    atomic { users = 0; i = 0 }
    do
    :: i < N -> atomic { users = users + user[i]; i++ }
    :: else -> break
    od
}

inline swap(from, to, me)
{
    atomic {
        if
        :: state == from -> state = to; by = me; swapped = 1
        :: else -> swapped = 0
        fi
    }
}

inline unmap_window()
{
    hash = 0;
    unmap();
    atomic { state = FREE; by = NOBODY }
}

inline unmap_if_unused(me)
{
    do
    :: count();
        if
        :: users > 0 -> break
        :: else -> skip
        fi;
        swap(LIVE, GOING, me);
        if
        :: !swapped -> break
        :: else -> skip
        fi;
#if WITHOUT != 1
        count();
#endif
        if
        :: users == 0 -> unmap_window(); break
        :: else -> atomic { state = LIVE; by = NOBODY }
        fi
    od
}

inline join()
{
    user[self] = 1;
    atomic {
        if
        :: state == LIVE || WITHOUT == 2 -> uses[self] = 1
        :: else -> skip
        fi
    }
    if
    :: uses[self] -> skip
    :: else ->
        user[self] = 0;
        unmap_if_unused(self)
    fi
}

inline make()
{
    swap(FREE, FILLING, self);
    if
    :: swapped ->
        map();
        user[self] = 1;
        hash = 1;
        atomic { state = LIVE; by = NOBODY; uses[self] = 1 }
    :: else -> skip
    fi
}

inline own()
{
    count();
    if
    :: users == 1 ->
        swap(LIVE, GOING, self);
        if
        :: swapped ->
            count();
            if
            :: users == 1 -> hash = 0; state = OWN
            :: else -> atomic { state = LIVE; by = NOBODY }
            fi
        :: else -> skip
        fi
    :: else -> skip
    fi
}

inline release()
{
    uses[self] = 0;
    atomic {
        if
        :: state == OWN && by == self -> state = GOING; swapped = 1
        :: else -> swapped = 0
        fi
    }
    user[self] = 0;
    if
    :: swapped -> unmap_window()
    :: else -> unmap_if_unused(self)
    fi
}

/* The reaper, which reaps one task after the other. */
inline drop()
{
    atomic { !reaping -> reaping = 1 }
    if
    :: by == self && state == GOING && hash -> atomic { state = LIVE; by = NOBODY }
    :: by == self && (state == FILLING || state == OWN || (state == GOING && !hash)) ->
        user[self] = 0;
        unmap_window()
    :: else -> skip
    fi;
    if
    :: WITHOUT == 3 && !user[self] -> skip
    :: else ->
        user[self] = 0;
        unmap_if_unused(self)
    fi;
    atomic {
        reaping = 0;
        dropped++;
        if
        :: dropped == N ->
            assert(state == FREE && !mapped && !hash);
            i = 0;
            do
            :: i < N -> assert(!user[i]); i++
            :: else -> break
            od
        :: else -> skip
        fi
    }
}

active[N] proctype task()
{
    byte self = _pid, round = 0, i, users;
    bool swapped;
    {
        do
        :: round == ROUNDS -> break
        :: round < ROUNDS ->
            round++;
            if
            :: !uses[self] && hash -> join()
            :: !uses[self] && !hash -> make()
            :: uses[self] -> own()
            :: uses[self] -> release()
            fi
        od
    } unless { killed[self] };
    atomic { ended[self] = 1; uses[self] = 0 }
    drop()
}

/* What the kernel does on kill. */
active proctype killer()
{
    byte victim;
    do
    :: deaths < DEATHS ->
        select(victim : 0 .. N - 1);
        atomic {
            if
            :: !ended[victim] -> killed[victim] = 1; uses[victim] = 0
            :: else -> skip
            fi
        }
        deaths++
    :: break
    od
}
