/* tests/models/lock.pml: the lock among the threads of one member (src/space/locks.c), a futex with
 * priority inheritance. Two threads of the task and one in a vfork child take it; the child may be
 * killed at any step, also while it holds the lock, and its TID may be given to a new thread, which
 * takes the lock, too. Checked: one holds it at a time, and each thread gets it.
 *
 * The kernel: LOCK_PI of a lock that is held sets WAITERS and sleeps, until an unlock or the owner's
 * end hands the lock to a sleeper; it fails with ESRCH if the owner has ended before, and with
 * EDEADLK if the owner's TID is the caller's.
 *
 * WITHOUT=1: who takes over a dead owner's lock reads the word anew after the kernel has said so; 2: and
 * stores, in place of a compare-and-swap; 3: unlock does not look for WAITERS; 4: a waiter gives up when
 * the owner has died; 5: who takes over does not set WAITERS, so that the word may be the old one
 * again, and others that sleep are forgotten. */
#include "common.pml"
#define THREADS 4 /* 0, 1: the task's; 2: in the vfork child; 3: has the TID of 2 later */
#define TID(thread) ((thread) == 3 -> 3 : (thread) + 1)
#define WAITERS 8
#define OWNER(word) ((word) % WAITERS)

byte word;
bool alive[5], sleeping[THREADS], inside[THREADS], killed, born;
byte deciding; /* threads that know that the owner has died, and have not done anything about it */
byte finished;

#define COUNT (inside[0] + inside[1] + inside[2] + inside[3])

/* The kernel gives the lock to a sleeper, if there is one. */
inline hand_over()
{
    if
    :: sleeping[0] -> word = TID(0) + WAITERS; sleeping[0] = false
    :: sleeping[1] -> word = TID(1) + WAITERS; sleeping[1] = false
    :: sleeping[2] -> word = TID(2) + WAITERS; sleeping[2] = false
    :: sleeping[3] -> word = TID(3) + WAITERS; sleeping[3] = false
    :: else -> word = 0
    fi
}

inline lock()
{
    got = false;
    atomic { /* try_lock */
        if
        :: word == 0 -> word = me; got = true
        :: else -> skip
        fi
    };
    do
    :: got -> break
    :: else ->
        before = word;
        failed = false;
        atomic { /* FUTEX_LOCK_PI */
            if
            :: word == 0 -> word = me; got = true
            :: word != 0 && (!alive[OWNER(word)] || OWNER(word) == me) ->
                word = OWNER(word) + (OWNER(word) == me -> word & WAITERS : WAITERS);
                failed = true;
                deciding++
            :: else ->
                word = OWNER(word) + WAITERS;
                sleeping[self] = true;
                got = true
            fi
        };
        if
        :: got -> !sleeping[self]
        :: else -> skip
        fi;
        if
        :: failed && WITHOUT != 4 ->
            if
            :: WITHOUT == 1 -> before = word
            :: else -> skip
            fi;
            atomic {
                deciding--;
                if
                :: word == before || WITHOUT == 2 ->
                    word = me + (WITHOUT == 5 -> 0 : WAITERS);
                    got = true
                :: else -> skip
                fi
            }
        :: failed && WITHOUT == 4 -> goto over
        :: else -> skip
        fi
    od;
    before = 0
}

inline unlock()
{
    inside[self] = false;
    atomic {
        if
        :: word == me || WITHOUT == 3 -> word = 0
        :: else -> hand_over()
        fi
    }
}

inline critical()
{
    lock();
    inside[self] = true;
    assert(COUNT == 1);
    unlock()
}

active[2] proctype thread()
{
    byte self = _pid, me = _pid + 1, before;
    bool got, failed;
    alive[me] = true;
    critical();
over:
    assert(got);
    finished++
}

active proctype child()
{
    byte self = 2, me = 3, before;
    bool got, failed;
    alive[me] = true;
    {
        critical();
over:
        skip
    } unless {
        killed
    };
    atomic { /* its end: the kernel hands over what it owned, if anybody sleeps */
        alive[me] = false;
        inside[self] = false;
        sleeping[self] = false;
        if
        :: OWNER(word) == me && (word & WAITERS) -> hand_over()
        :: else -> skip
        fi
    };
    born = true
}

active proctype killer()
{
    if
    :: killed = true
    :: skip
    fi
}

/* A later thread with the TID of the child. That a TID is used again between two instructions of
 * another thread is left out: nothing but the kernel could exclude it. */
active proctype successor()
{
    byte self = 3, me = 3, before;
    bool got, failed;
    atomic {
        born && deciding == 0;
        alive[me] = true
    };
    critical();
over:
    assert(got);
    finished++
}
