/* tests/models/doubling.pml: allreduce by recursive doubling (include/onespace/sync/engine.hpp), with the
 * pairs of a team that is not a power of two. Values are sets of ranks as bits. Checked: every rank gets
 * all of them, combined in the order of ranks, in two operations one after another on two slots each. */
#include "common.pml"
#define POWER      (N >= 4 -> 4 : 2) /* N is 3 to 7, or 2 */
#define PAIRS      (N - POWER)
#define CHANNELS   4 /* before, two rounds, after */
#define AFTER      3
#define OPERATIONS 3

typedef slots {
    byte value[CHANNELS * 2], low[CHANNELS * 2], high[CHANNELS * 2];
}
slots slot[N];

inline publish(channel)
{
    slot[self].low[channel * 2 + k % 2] = low;
    slot[self].high[channel * 2 + k % 2] = high;
    slot[self].value[channel * 2 + k % 2] = k
}

/* What a rank holds is the result of the ranks low to high. */
inline look(from, channel)
{
    AWAIT(1, slot[from].value[channel * 2 + k % 2] >= k);
    assert(slot[from].value[channel * 2 + k % 2] == k);
    a = slot[from].low[channel * 2 + k % 2];
    z = slot[from].high[channel * 2 + k % 2]
}

inline combine()
{
    if
    :: z + 1 == low -> low = a
    :: high + 1 == a -> high = z
    :: else -> assert(false)
    fi
}

active[N] proctype rank()
{
    byte self = _pid, k = 0, low, high, a, z, place, bit_, channel, other;
    do
    :: k < OPERATIONS ->
        k++;
        low = self;
        high = self;
        if
        :: self < 2 * PAIRS && self % 2 == 0 ->
            publish(0);
            look(self + 1, AFTER);
            low = a;
            high = z
        :: else ->
            if
            :: self < 2 * PAIRS ->
                look(self - 1, 0);
                combine();
                place = self / 2
            :: else -> place = self - PAIRS
            fi;
            bit_ = 1;
            channel = 0;
            do
            :: bit_ < POWER ->
                channel++;
                other = (place & bit_ -> place - bit_ : place + bit_);
                other = (other < PAIRS -> 2 * other + 1 : other + PAIRS);
                publish(channel);
                look(other, channel);
                combine();
                bit_ = bit_ * 2
            :: else -> break
            od;
            if
            :: self < 2 * PAIRS -> publish(AFTER)
            :: else -> skip
            fi
        fi;
        assert(low == 0 && high == N - 1);
        a = 0;
        z = 0
    :: else -> break
    od
}
