/* tests/models/registrations.pml: memory that a member has registered with a device, and that its
 * owner unmaps (src/space/registrations.h). The registrant transfers and the owner unmaps in turn; a
 * third member, which discards a part of the same pages, posts a notice at any time. With KILL=1 the
 * registrant is killed at some time. With END=1 the owner ends instead, and the reaper unmaps: it posts and looks again
 * when it is told so. Checked: no transfer uses a registration of pages that are gone, and each
 * unmapping is done in the end.
 *
 * WITHOUT=1: the owner does not wait; 2: the notifier removes the notice before the hooks have heard;
 * 3: a notice in delivery does not concern others; 4: the notifier reads `posted` after it has looked;
 * 5 (KILL=1): the owner does not ask whether the registrant still lives; 6: the registration is not
 * recorded again when it has succeeded; 7 (END=1): the notifier does not tell the reaper. */
#include "common.pml"
#ifndef END
#define END 0
#endif
#ifndef KILL
#define KILL 0
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

#define POSTED     1
#define DELIVERING 2

byte page = 1; /* the pages that are mapped now */
byte cached;   /* those that the registration has pinned; 0: there is none */
byte notice, posted, delivered, rounds;
bool record, running = true, alive = true, owners_turn;
bool pending, changed; /* of the reaper */

inline look_for_concern()
{
    concerned = record;
    d_step {
        concerned = running && (concerned || (WITHOUT != 3 && notice != 0))
    }
}

inline post()
{
    d_step {
        got = notice == 0;
        notice = (got -> POSTED : notice)
    };
    posted = posted + got
}

inline notify()
{
    look_for_concern();
    if
    :: concerned ->
        do
        :: seen = delivered;
           if
           :: !running && WITHOUT != 5 -> break
           :: else -> skip
           fi;
           post();
           if
           :: got -> break
           :: else -> (delivered != seen)
           fi
        od;
        do
        :: WITHOUT == 1 -> break
        :: WITHOUT != 1 ->
           seen = delivered;
           if
           :: (!running && WITHOUT != 5) || notice == 0 -> break
           :: else -> (delivered != seen)
           fi
        od
    :: else -> skip
    fi
}

/* The reaper: holds the memory of an ended owner while it concerns the registrant. */
inline reclaim()
{
    pending = true;
    do
    :: look_for_concern();
       if
       :: !concerned -> break
       :: else -> skip
       fi;
       if
       :: record && notice == 0 -> post()
       :: else -> skip
       fi;
       (pending && changed);
       changed = false;
       pending = false;
       pending = true
    od;
    pending = false
}

active proctype owner()
{
    bool concerned, got;
    byte seen;
    do
    :: rounds < ROUNDS ->
        (owners_turn || !alive);
        if
        :: END -> reclaim()
        :: else -> notify()
        fi;
        page++;
        rounds++;
        owners_turn = false
    :: else -> break
    od
}

active proctype third()
{
    bool concerned, got;
    byte seen;
    notify()
}

active proctype registrant()
{
    byte used;
    {
    do
    :: rounds == ROUNDS && owners_turn -> break
    :: !owners_turn ->
        record = true;
        d_step {
            cached = (cached -> cached : page);
            used = cached
        };
        if
        :: WITHOUT != 6 -> record = true
        :: else -> skip
        fi;
        assert(used == page);
        if
        :: rounds == ROUNDS -> break
        :: else -> owners_turn = true
        fi
    od
    } unless { !alive }
}

active proctype notifier()
{
    byte seen;
    bool any;
    {
end:
    do
    :: seen = posted;
       d_step {
           any = notice == POSTED;
           notice = (any -> DELIVERING : notice)
       };
       if
       :: any ->
           record = false;
           if
           :: WITHOUT == 2 ->
               notice = 0;
               delivered++
           :: else -> skip
           fi;
           cached = 0;
           if
           :: WITHOUT != 2 ->
               notice = 0;
               delivered++
           :: else -> skip
           fi;
           if
           :: pending && WITHOUT != 7 -> changed = true
           :: else -> skip
           fi
       :: else ->
           if
           :: WITHOUT == 4 -> seen = posted
           :: else -> skip
           fi;
end_of_notices:
           (posted != seen)
       fi
    od
    } unless { !alive }
}

active proctype reaper()
{
    if
    :: KILL ->
        alive = false;
        running = false;
        d_step {
            notice = 0;
            delivered++;
            changed = true
        }
    :: else -> skip
    fi
}
