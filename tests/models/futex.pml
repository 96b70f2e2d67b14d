/* tests/models/futex.pml: sleeping on a flag (include/onespace/sync/wait.hpp) loses no wake-up.
 *
 * The writer stores the value, then looks for sleepers; the sleeper counts itself, then looks at the
 * value, and the kernel looks once more before it puts it to sleep. N - 1 ranks sleep. The writer's
 * store goes through a buffer, as CPUs have it: sequentially consistent operations wait until it
 * is empty. -DWITHOUT=1: the writer does not wait for that (a release store would not). -DWITHOUT=2:
 * the kernel does not look again. -DWITHOUT=3: the writer does not look for sleepers. */
#include "common.pml"

bool buffered, value; /* the store before and after the others see it */
byte sleepers;
bool asleep[N];

active proctype writer()
{
    byte i;
    buffered = true;
    AWAIT(1, value);
    if
    :: sleepers > 0 && WITHOUT != 3 ->
        atomic {
            i = 1;
            do
            :: i < N -> asleep[i] = false; i++
            :: else -> break
            od
        }
    :: else -> skip
    fi
}

active proctype store_buffer()
{
    buffered -> value = true
}

active[N - 1] proctype sleeper()
{
    byte self = _pid - 1;
    bool seen;
    do
    :: seen = value;
        if
        :: seen -> break
        :: else ->
            sleepers++;
            seen = value;
            if
            :: !seen ->
                atomic { /* FUTEX_WAIT */
                    if
                    :: !value || WITHOUT == 2 -> asleep[self] = true
                    :: else -> skip
                    fi
                }
                !asleep[self] /* without a time limit, unlike in the header: a lost wake-up is stuck */
            :: else -> skip
            fi;
            sleepers--
        fi
    od
}
