/* tests/models/group.pml: the group of numbered tasks and its barrier (src/space/member.h).
 *
 * The default: two members wait in the barrier, one of them may be killed at any step, and the
 * reaper then takes it out of the group. Checked: each wait ends, with success only if all arrived.
 *
 * -DJOIN=1: three threads spawn at once when group 1 has no member left: numbers 0 and 1, and 0 once
 * more. Checked: group 2 begins, all three are in it, and it is not replaced while it has members.
 *
 * WITHOUT=1: the reaper breaks the barrier without advancing the generation; 2: the kernel does not
 * compare the word before it puts the waiter to sleep; 3 (JOIN): the slots of spawners that have
 * not joined yet count as members, as any CLAIMED slot; 4 (JOIN): a spawner stores the id in its
 * slot after it has counted its join. */
#include "common.pml"
#ifndef JOIN
#define JOIN 0
#endif

#if JOIN == 0
byte generation = 1, arrived;
bool broken, asleep[2], killed, reaped, finished[2];
byte results; /* waits that succeeded */

inline wake()
{
    d_step {
        asleep[0] = false;
        asleep[1] = false
    }
}

active[2] proctype member()
{
    byte self = _pid, mine, now;
    bool bad, last;
    {
        d_step { /* group_arrive: one compare-and-swap */
            mine = generation;
            bad = broken;
            last = !broken && arrived == 1;
            if
            :: broken -> skip
            :: !broken && last ->
                generation++;
                arrived = 0
            :: else -> arrived++
            fi
        };
        if
        :: bad -> goto over
        :: !bad && last ->
            wake();
            results++;
            goto over
        :: else -> skip
        fi;
        do
        :: d_step {
               now = generation;
               bad = broken
           };
           if
           :: now != mine ->
               if
               :: bad && now == mine + 1 -> skip /* -EOWNERDEAD */
               :: else -> results++
               fi;
               break
           :: WITHOUT == 1 && bad -> break
           :: else -> skip
           fi;
           atomic { /* FUTEX_WAIT */
               if
               :: generation == mine || WITHOUT == 2 -> asleep[self] = true
               :: else -> skip
               fi
           };
           !asleep[self]
        od
    } unless {
        self == 1 && killed
    };
over:
    finished[self] = true
}

active proctype killer()
{
    if
    :: true -> killed = true
    :: true -> skip
    fi;
    finished[1];
    /* The reaper: group_leave */
    d_step {
        broken = true;
        if
        :: WITHOUT != 1 ->
            generation++;
            arrived = 0
        :: else -> skip
        fi
    };
    wake();
    finished[0];
    assert(results == 2 || killed)
}
#else
#define SPAWNERS 3
byte id = 1, joins;            /* space->group */
byte started[2] = 1;           /* space->group_started */
byte slot[SPAWNERS];           /* the group of each slot; 0: none */
bool is_claimed[SPAWNERS];     /* CLAIMED, perhaps not joined yet */
byte joined[SPAWNERS];         /* the group in which the join was counted */

inline has_members()
{
    found = false;
    other = 0;
    do
    :: other < SPAWNERS ->
        if
        :: other == self -> skip
        :: other != self -> found = found || slot[other] == seen_id || (WITHOUT == 3 && is_claimed[other])
        fi;
        other++
    :: else -> break
    od
}

/* The third one spawns another number 0, for a group after the next. */
active[SPAWNERS] proctype spawner()
{
    byte self = _pid, number = (_pid == 1 -> 1 : 0), seen_id, seen_joins, stored, other;
    bool found, was_started;
    is_claimed[self] = true;
    do
    :: d_step {
           seen_id = id;
           seen_joins = joins
       };
       was_started = started[number] == seen_id && stored != seen_id;
       found = true;
       if
       :: was_started -> has_members()
       :: else -> skip
       fi;
       if
       :: !found ->
           d_step { /* begins the next group, if none has done so or joined meanwhile */
               if
               :: id == seen_id && joins == seen_joins ->
                   other = 0;
                   do
                   :: other < SPAWNERS -> assert(joined[other] != id); other++
                   :: else -> break
                   od;
                   id++;
                   joins = 0
               :: else -> skip
               fi;
               other = 0
           }
       :: else ->
           if
           :: WITHOUT != 4 -> slot[self] = seen_id
           :: else -> skip
           fi;
           if
           :: !was_started ->
               started[number] = seen_id;
               stored = seen_id
           :: else -> skip
           fi;
           d_step {
               if
               :: id == seen_id && joins == seen_joins ->
                   joins++;
                   joined[self] = id
               :: else -> skip
               fi
           };
           if
           :: joined[self] -> break
           :: else -> skip
           fi
       fi
    od;
    slot[self] = joined[self];
    assert(joined[self] == 2)
}
#endif
